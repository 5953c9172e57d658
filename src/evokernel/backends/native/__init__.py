"""What backends share that compile a candidate's C++ on this machine: the compiler in its jail, its errors in words, the looks at text and
built object. No plug-in."""
