/* A plugin for QEMU: how many instructions each translated block ran, as lines "address count" at the end. QEMU's plugin interface,
 * version 1, as far as it is needed; Debian's packages lack its header.
 *
 *     cc -shared -fPIC counter.c -o counter.so && qemu-system-arm -plugin ./counter.so -d plugin -D counts.txt ... */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
void qemu_plugin_outs(const char *text);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, enum qemu_plugin_op what, void *counter, uint64_t by);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, void *), void *context);

int qemu_plugin_version = 1;

/* Blocks in the order of their translation; QEMU keeps the address of each counter. */
struct counted {
  uint64_t address;
  uint64_t instructions;
  struct counted *before;
};

static struct counted *last;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  struct counted *counted = calloc(1, sizeof *counted);
  if (counted == NULL) abort();
  counted->address = qemu_plugin_tb_vaddr(block);
  counted->before = last;
  last = counted;
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &counted->instructions, qemu_plugin_tb_n_insns(block));
}

static void ended(qemu_plugin_id_t id, void *context) {
  (void)id;
  (void)context;
  for (const struct counted *block = last; block != NULL; block = block->before) {
    char line[48];
    snprintf(line, sizeof line, "%" PRIx64 " %" PRIu64 "\n", block->address, block->instructions);
    qemu_plugin_outs(line);
  }
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **words) {
  (void)info;
  (void)count;
  (void)words;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
