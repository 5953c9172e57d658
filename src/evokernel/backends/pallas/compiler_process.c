/* Compiles programs for a TPU with libtpu's compiler, over the PJRT C interface, on a machine that has no TPU.
 *
 *   compiler_process LIBTPU PARENT [OFFSET]
 *
 * The process prints "ready". Then it reads one request per line, "topology TAB program file TAB options file", and answers
 * each with "done", or with "error CODE N" and N bytes of error message. It exits at the line "quit", at the end of its
 * input, or when the process PARENT has exited.
 * OFFSET is passed under an emulator that lacks one system call; see `replace_faccessat`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* The part of the PJRT C interface that we use. Every record starts with its size and a list of extensions, which stays empty.
 * The table of functions starts with its size, its extensions and a version; new versions only append to it. */
typedef struct {
  size_t size;
  void *extensions;
} Head;

enum { ERROR_DESTROY = 0, ERROR_MESSAGE = 1, ERROR_CODE = 2, PLUGIN_INITIALIZE = 3, EXECUTABLE_DESTROY = 40, TOPOLOGY_CREATE = 82, COMPILE = 89 };

typedef struct {
  Head head;
  struct {
    Head head;
    int major, minor;
  } version;
  void *(*slots[])(void *);
} Api;

typedef struct {
  Head head;
  void *object; /* the error or executable to free */
} Destroy;

typedef struct {
  Head head;
  void *error;
  const char *text; /* set by the call, as is its length */
  size_t length;
} Message;

typedef struct {
  Head head;
  void *error;
  int code; /* set by the call */
} Code;

typedef struct {
  Head head;
  const char *name;
  size_t length;
  const void *options;
  size_t option_count;
  void *topology; /* set by the call */
} Topology;

typedef struct {
  Head head;
  char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
} Program;

typedef struct {
  Head head;
  void *topology;
  const Program *program;
  const char *options;
  size_t options_size;
  void *client;
  void *executable; /* set by the call */
} Compile;

#define RECORD(type) {.head = {sizeof(type), NULL}}

static const Api *api;
static FILE *answers;

static void answer_error(int code, const char *text, size_t length) {
  fprintf(answers, "error %d %zu\n", code, length);
  fwrite(text, 1, length, answers);
  fflush(answers);
}

static void fail(const char *text) {
  answer_error(0, text, strlen(text));
  exit(1);
}

/* Answers with the error that a call returned, and frees it. Returns 1 if there was an error. */
static int report_error(void *error) {
  if (!error) return 0;
  Message message = RECORD(Message);
  message.error = error;
  api->slots[ERROR_MESSAGE](&message);
  Code code = RECORD(Code);
  code.error = error;
  api->slots[ERROR_CODE](&code);
  answer_error(code.code, message.text, message.length);
  Destroy destroy = RECORD(Destroy);
  destroy.object = error;
  api->slots[ERROR_DESTROY](&destroy);
  return 1;
}

static char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*length + 1);
  if (bytes && fread(bytes, 1, *length, file) != *length) {
    free(bytes);
    bytes = NULL;
  }
  fclose(file);
  return bytes;
}

/* Returns the topology of that name, which is created once per process. Returns NULL after an error, which it answers. */
static void *get_topology(const char *name) {
  static struct {
    char name[64];
    void *topology;
  } cache[16];
  static size_t count;
  for (size_t i = 0; i < count; i++)
    if (!strcmp(cache[i].name, name)) return cache[i].topology;
  Topology call = RECORD(Topology);
  call.name = name;
  call.length = strlen(name);
  if (report_error(api->slots[TOPOLOGY_CREATE](&call))) return NULL;
  if (count < sizeof cache / sizeof *cache && strlen(name) < sizeof cache->name) {
    strcpy(cache[count].name, name);
    cache[count++].topology = call.topology;
  }
  return call.topology;
}

static void compile_program(const char *name, const char *program_file, const char *options_file) {
  Program program = RECORD(Program);
  program.format = "mlir";
  program.format_size = 4;
  Compile call = RECORD(Compile);
  call.program = &program;
  program.code = read_file(program_file, &program.code_size);
  char *options = read_file(options_file, &call.options_size);
  call.options = options;
  if (!program.code || !options) {
    fail("the compiler process cannot read its files");
  } else if ((call.topology = get_topology(name)) && !report_error(api->slots[COMPILE](&call))) {
    Destroy destroy = RECORD(Destroy);
    destroy.object = call.executable;
    report_error(api->slots[EXECUTABLE_DESTROY](&destroy));
    fputs("done\n", answers);
    fflush(answers);
  }
  free(program.code);
  free(options);
}

/* box64 before 0.4.4 does not support the system call 269, faccessat, which libtpu issues directly instead of through the C
 * library. The system call 439, faccessat2, has the same arguments, followed by flags that this code already sets to zero.
 * The caller found the offset in the file; we write nothing unless the code at that offset is the expected one. */
static const unsigned char FACCESSAT[] = {0xb8, 0x0d, 0x01, 0, 0, 0x48, 0xc7, 0xc7, 0x9c, 0xff, 0xff, 0xff, 0x48, 0x89, 0xce, 0x45, 0x31, 0xd2, 0x0f, 0x05};

static void replace_faccessat(void *symbol, uintptr_t offset) {
  Dl_info library;
  if (!dladdr(symbol, &library)) return;
  unsigned char *code = (unsigned char *)library.dli_fbase + offset;
  if (memcmp(code, FACCESSAT, sizeof FACCESSAT)) return;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)code & ~(page - 1);
  size_t length = (uintptr_t)code + sizeof FACCESSAT - start;
  if (mprotect((void *)start, length, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
  code[1] = 439 & 0xff;
  mprotect((void *)start, length, PROT_READ | PROT_EXEC);
}

/* Exits with the parent: a killed parent cannot close our input, and a process it forked may still have it open. */
static void *exit_with_parent(void *parent) {
  while (getppid() == (pid_t)(intptr_t)parent) sleep(1);
  _exit(0);
}

int main(int count, char **arguments) {
  if (count < 3) return 2;
  answers = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO); /* output of libtpu must not mix with the answers */
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  pthread_t watcher;
  pthread_create(&watcher, NULL, exit_with_parent, (void *)(intptr_t)atoi(arguments[2]));

  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(dlerror());
  const Api *(*start)(void) = (const Api *(*)(void))dlsym(library, "GetPjrtApi");
  if (!start) fail("libtpu has no function GetPjrtApi");
  if (count > 3) replace_faccessat((void *)start, strtoull(arguments[3], NULL, 10));
  api = start();
  if (!api || api->version.major != 0 || api->head.size < sizeof(Api) + (COMPILE + 1) * sizeof(void *)) fail("libtpu uses an unsupported version of the PJRT interface");
  Head initialize = {sizeof(Head), NULL};
  if (report_error(api->slots[PLUGIN_INITIALIZE](&initialize))) return 1;
  fputs("ready\n", answers);
  fflush(answers);

  char *line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) > 0 && strcmp(line, "quit\n")) {
    char *name = strtok(line, "\t"), *program = strtok(NULL, "\t"), *options = strtok(NULL, "\n");
    if (!name || !program || !options) fail("the compiler process received a malformed request");
    compile_program(name, program, options);
  }
  fflush(NULL);
  _exit(0); /* skip exit handlers: they conflict with the threads of libtpu */
}
