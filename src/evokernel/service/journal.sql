PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  batch TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL DEFAULT 'queued',
  request TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  task TEXT NOT NULL,
  task_record TEXT NOT NULL DEFAULT '',
  backend TEXT NOT NULL,
  candidate TEXT NOT NULL,
  seed INTEGER NOT NULL,
  session TEXT NOT NULL DEFAULT '',
  starts INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL,
  started_at REAL,
  finished_at REAL,
  result TEXT NOT NULL DEFAULT '',
  error TEXT NOT NULL DEFAULT '',
  reused_from TEXT NOT NULL DEFAULT '',
  is_repeatable INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, tenant);
CREATE INDEX IF NOT EXISTS jobs_by_tenant ON jobs (tenant, seq, bytes, finished_at);
CREATE INDEX IF NOT EXISTS jobs_by_batch ON jobs (batch) WHERE batch <> '';
CREATE INDEX IF NOT EXISTS jobs_by_content ON jobs (tenant, fingerprint);
CREATE TABLE IF NOT EXISTS keys (
  tenant TEXT NOT NULL,
  key TEXT NOT NULL,
  body TEXT NOT NULL,
  target TEXT NOT NULL,
  created_at REAL NOT NULL,
  PRIMARY KEY (tenant, key)
);
