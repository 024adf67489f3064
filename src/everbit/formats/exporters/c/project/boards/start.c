/* From the processor's reset to main() and back to the debugger. No heap, no file, no floating point: what newlib gives are memcpy, memset
 * and their like. */
#include <stddef.h>
#include <stdint.h>

#include "console.h"

/* Places of the linker script. */
extern uint32_t data_start[], data_end[], data_load[], bss_start[], bss_end[], stack_start[], stack_end[];
extern void (*const constructors_start[])(void);
extern void (*const constructors_end[])(void);

int main(void);
void reset(void);

enum { PAINT = 0x5aa55aa5 };

/* Semihosting: the debugger, or QEMU, does what register 0 asks. */
enum { WRITE0 = 0x04, EXIT = 0x18, STOPPED = 0x20026, FAILED = 0x20023 };

static void ask(int32_t operation, const void *argument) {
  register int32_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void console_write(const char *text) { ask(WRITE0, text); }

long console_stack_used(void) {
  const uint32_t *untouched = stack_start;
  while (untouched < stack_end && *untouched == (uint32_t)PAINT) ++untouched;
  return (long)((const char *)stack_end - (const char *)untouched);
}

/* What a fault runs on: it comes, too, where the program left its own stack. */
static uint64_t fault_stack[32];

static void fault(void) {
  console_write("the processor stopped on a fault; was STACK_BYTES enough?\n");
  for (;;) ask(EXIT, (const void *)FAILED);
}

/* Called once the program has a stack of its own. */
__attribute__((noreturn, used)) static void start(void) {
  const uint32_t *from = data_load;
  for (uint32_t *to = data_start; to < data_end;) *to++ = *from++;
  for (uint32_t *to = bss_start; to < bss_end;) *to++ = 0;
  const uint32_t *in_use;
  __asm__ volatile("mov %0, sp" : "=r"(in_use));
  for (uint32_t *to = stack_start; to < in_use;) *to++ = (uint32_t)PAINT;
  for (void (*const *call)(void) = constructors_start; call < constructors_end;) (*call++)();
  const int status = main();
  for (;;) ask(EXIT, (const void *)(status == 0 ? STOPPED : FAILED));
}

/* The processor starts on the stack of faults. */
__attribute__((naked)) void reset(void) {
  __asm__ volatile(
      "ldr r0, =stack_end\n"
      "msr psp, r0\n"
      "movs r0, #2\n"
      "msr control, r0\n"
      "isb\n"
      "b start\n"
      ".ltorg\n");
}

/* Parts of libgcc name it; nothing is ever thrown. */
void __aeabi_unwind_cpp_pr0(void) {}

__attribute__((section(".vectors"), used)) static const struct {
  const void *stack;
  void (*entries[15])(void);
} vectors = {fault_stack + 32, {reset, fault, fault, fault, fault, fault, NULL, NULL, NULL, NULL, fault, fault, NULL, fault, fault}};
