/* Compiles programs for a TPU with libtpu's compiler, over the PJRT C interface, on a machine that has no TPU.
 *
 *   driver LIBTPU PARENT [ADDRESS]
 *
 * It says "ready", then reads one request per line, "topology TAB program file TAB options file", and answers each with
 * "done" or with "error CODE N" and N bytes of the compiler's words. It ends at the line "quit", with its input, or when
 * PARENT is gone.
 * ADDRESS is set under an emulator that lacks one system call; see `replace_access`. */
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

/* The part of the interface that is used. Every record starts with its own size and a list of extensions, which stays empty;
 * the table of functions starts with its size, its extensions and a version, and only ever grows at its end. */
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
  void *object; /* the error or the executable that is freed */
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

static void stop(const char *text) {
  answer_error(0, text, strlen(text));
  exit(1);
}

/* Says what a call refused, and frees the refusal. Returns whether there was one. */
static int refused(void *error) {
  if (!error) return 0;
  Message message = RECORD(Message);
  message.error = error;
  api->slots[ERROR_MESSAGE](&message);
  Code code = RECORD(Code);
  code.error = error;
  api->slots[ERROR_CODE](&code);
  answer_error(code.code, message.text, message.length);
  Destroy gone = RECORD(Destroy);
  gone.object = error;
  api->slots[ERROR_DESTROY](&gone);
  return 1;
}

static char *contents(const char *path, size_t *length) {
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

/* The topology of that name; made once, kept for the life of the process. NULL after a refusal, which is answered here. */
static void *topology(const char *name) {
  static struct {
    char name[64];
    void *made;
  } known[16];
  static size_t count;
  for (size_t i = 0; i < count; i++)
    if (!strcmp(known[i].name, name)) return known[i].made;
  Topology wanted = RECORD(Topology);
  wanted.name = name;
  wanted.length = strlen(name);
  if (refused(api->slots[TOPOLOGY_CREATE](&wanted))) return NULL;
  if (count < sizeof known / sizeof *known && strlen(name) < sizeof known->name) {
    strcpy(known[count].name, name);
    known[count++].made = wanted.topology;
  }
  return wanted.topology;
}

static void compile(const char *name, const char *program_file, const char *options_file) {
  Program program = RECORD(Program);
  program.format = "mlir";
  program.format_size = 4;
  Compile call = RECORD(Compile);
  call.program = &program;
  program.code = contents(program_file, &program.code_size);
  char *options = contents(options_file, &call.options_size);
  call.options = options;
  if (!program.code || !options) {
    stop("the driver cannot read its files");
  } else if ((call.topology = topology(name)) && !refused(api->slots[COMPILE](&call))) {
    Destroy gone = RECORD(Destroy);
    gone.object = call.executable;
    refused(api->slots[EXECUTABLE_DESTROY](&gone));
    fputs("done\n", answers);
    fflush(answers);
  }
  free(program.code);
  free(options);
}

/* box64 before 0.4.4 does not know the system call 269, faccessat, which libtpu issues on its own, past the C library.
 * 439, faccessat2, has the same arguments and flags after them, which the code here sets to zero. The caller found the
 * place in the file; nothing is written unless the code is what it should be. */
static const unsigned char ACCESS[] = {0xb8, 0x0d, 0x01, 0, 0, 0x48, 0xc7, 0xc7, 0x9c, 0xff, 0xff, 0xff, 0x48, 0x89, 0xce, 0x45, 0x31, 0xd2, 0x0f, 0x05};

static void replace_access(void *inside, uintptr_t address) {
  Dl_info found;
  if (!dladdr(inside, &found)) return;
  unsigned char *code = (unsigned char *)found.dli_fbase + address;
  if (memcmp(code, ACCESS, sizeof ACCESS)) return;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)code & ~(page - 1);
  size_t length = (uintptr_t)code + sizeof ACCESS - start;
  if (mprotect((void *)start, length, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
  code[1] = 439 & 0xff;
  mprotect((void *)start, length, PROT_READ | PROT_EXEC);
}

/* A parent that was killed cannot close our input, and one that forked may have left it open. */
static void *watch(void *parent) {
  while (getppid() == (pid_t)(intptr_t)parent) sleep(1);
  _exit(0);
}

int main(int count, char **words) {
  if (count < 3) return 2;
  answers = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO); /* what libtpu prints is not an answer */
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  pthread_t watcher;
  pthread_create(&watcher, NULL, watch, (void *)(intptr_t)atoi(words[2]));

  void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) stop(dlerror());
  const Api *(*start)(void) = (const Api *(*)(void))dlsym(library, "GetPjrtApi");
  if (!start) stop("libtpu has no GetPjrtApi");
  if (count > 3) replace_access((void *)start, strtoull(words[3], NULL, 10));
  api = start();
  if (!api || api->version.major != 0 || api->head.size < sizeof(Api) + (COMPILE + 1) * sizeof(void *)) stop("libtpu speaks another version of PJRT");
  Head initialize = {sizeof(Head), NULL};
  if (refused(api->slots[PLUGIN_INITIALIZE](&initialize))) return 1;
  fputs("ready\n", answers);
  fflush(answers);

  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0 && strcmp(line, "quit\n")) {
    char *name = strtok(line, "\t"), *program = strtok(NULL, "\t"), *options = strtok(NULL, "\n");
    if (!name || !program || !options) stop("the driver does not understand this request");
    compile(name, program, options);
  }
  fflush(NULL);
  _exit(0); /* libtpu's own threads do not like exit handlers */
}
