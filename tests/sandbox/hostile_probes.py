"""Attacks of a hostile candidate on its machine. Each raises Harm if it succeeds; `where` is a folder of the test."""

HEAD = """
import ctypes, os, signal, socket, struct, subprocess, sys, threading, time
class Harm(Exception): pass
libc = ctypes.CDLL(None, use_errno=True)
arm = os.uname().machine == "aarch64"
parent = os.getppid()
def must(value):
    if value == -1 or value is None:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def invoke_syscall(x86, aarch64, *arguments):
    must(libc.syscall(ctypes.c_long(aarch64 if arm else x86), *arguments))
"""

PROBES = {
    "write outside": "open(where + '/written', 'w').write('x')",
    "append outside": "open(where + '/secret', 'a').write('x')",
    "truncate outside": "os.truncate(where + '/secret', 0)",
    "remove outside": "os.unlink(where + '/secret')",
    "move outside": "os.rename(where + '/secret', where + '/moved')",
    "link outside": "os.symlink('/etc/passwd', where + '/link')",
    "change modes outside": "os.chmod(where + '/secret', 0o777)",
    "change times outside": "os.utime(where + '/secret', (0, 0))",
    "read a secret": "open(where + '/secret').read()",
    "list a folder": "os.listdir(where)",
    "read accounts": "open('/etc/passwd').read()",
    "list homes": "os.listdir('/root'); os.listdir('/home')",
    "shared memory": "open('/dev/shm/evokernel-probe', 'w').write('x')",
    "tcp": "socket.create_connection(('127.0.0.1', port), 2)",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "abstract socket": "s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + abstract)",
    "signal the parent": "os.kill(parent, 0)",
    "signal the group": "os.killpg(os.getpgid(parent), 0)",
    "signal everybody": "os.kill(-1, 0)",
    "trace the parent": "must(libc.ptrace(0x4206, parent, None, None))",
    "read the parent's memory": "b = ctypes.create_string_buffer(8); v = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 8); "
    "must(libc.process_vm_readv(parent, v, 1, v, 1, 0))",
    "open the parent's memory": "os.open(f'/proc/{parent}/mem', os.O_RDWR)",
    "read the parent's environment": "open(f'/proc/{parent}/environ').read()",
    "start a program": "subprocess.run(['/bin/true'], check=True)",
    "become a program": "os.write(2, b'became'); os.execv('/bin/echo', ['echo'])",
    "fork": "pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)",
    "daemon": "os.setsid()",
    "leave the group": "must(libc.setpgid(0, parent))",
    "threads": "threading.Thread(target=time.sleep, args=(0.01,)).start()",
    "memory": "held = bytearray(5 << 29)",
    "a large file": "open('large', 'wb').write(bytes(2 << 20))",
    "system v memory": "must(libc.shmget(0, 4096, 0o1600))",
    "message queue": "must(libc.mq_open(b'/evokernel-probe', 0o102, 0o600, None))",
    "io_uring": "invoke_syscall(425, 425, 4, ctypes.create_string_buffer(120))",
    "performance counters": "invoke_syscall(298, 241, ctypes.create_string_buffer(struct.pack('<II', 1, 112), 112), 0, -1, -1, 0)",
    "bpf": "invoke_syscall(321, 280, 0, ctypes.create_string_buffer(120), 120)",
    "keys": "invoke_syscall(250, 219, 0, -3, 0)",
    "real-time scheduling": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "priority": "must(libc.setpriority(0, 0, -5))",
    "affinity": "os.sched_setaffinity(0, {0})",
    "mount": "must(libc.mount(b'none', b'/mnt', b'tmpfs', 0, None))",
    "namespaces": "must(libc.unshare(0x10000000))",
    "chroot": "os.chroot('.')",
    "host name": "must(libc.sethostname(b'', 0))",
    "inherited descriptors": "assert len(os.listdir('/proc/self/fd')) > 9",
    "the environment": "assert any('KEY' in name for name in os.environ)",
    "catch a fault": "signal.signal(signal.SIGSEGV, lambda *a: None)",
    "raise a limit": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))",
    "capabilities": "states = open('/proc/self/status').read(); assert int(states.split('CapEff:')[1].split()[0], 16)",
    "memory that is code": "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "code made later": "import mmap; m = mmap.mmap(-1, 4096); "
    "must(libc.mprotect(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), 4096, 5))",
    "a nameless program": "os.memfd_create('x')",
    "no addresses": "must(libc.personality(0x40000))",
    "clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "user": "must(libc.setresuid(1000, 1000, 1000))",
    "pipe to keep": "os.mkfifo('pipe')",
    "file handles": "b = ctypes.create_string_buffer(struct.pack('<Ii', 128, 0), 136); m = ctypes.c_int(); "
    "invoke_syscall(303, 264, -100, b'/', b, ctypes.byref(m), 0)",
}
STOPPING_LAYERS = {  # the layers that stop the attack: without them it succeeds
    "write outside": "landlock,seccomp",
    "remove outside": "landlock,seccomp",
    "change modes outside": "seccomp",
    "read a secret": "landlock",
    "read accounts": "landlock",
    "tcp": "landlock,seccomp,namespaces",
    "udp": "seccomp,namespaces",
    "abstract socket": "landlock,seccomp,namespaces",
    "signal the parent": "landlock,seccomp",
    "start a program": "limits,landlock,seccomp",
    "fork": "limits,seccomp",
    "memory": "limits",
    "memory that is code": "seccomp",
    "catch a fault": "seccomp",
    "a nameless program": "seccomp",
}


def make_candidate_text(name: str, **values: object) -> str:
    """Return a candidate that makes one attack while it is loaded."""
    return HEAD + "".join(f"{key} = {value!r}\n" for key, value in values.items()) + PROBES[name] + "\nraise Harm('HARM')\n"
