/* Start of a program on a Cortex-M3 (ARM MPS2 with AN385) under qemu-system-arm, which prints and ends by semihosting. */
#include <stdint.h>
#include <string.h>

extern char __stack_top, __data_start, __data_end, __data_load, __bss_start, __bss_end;
int main(void);

static void semihost(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void put(const char *text) { semihost(4, text); }

static void reset(void) {
  memcpy(&__data_start, &__data_load, (size_t)(&__data_end - &__data_start));
  memset(&__bss_start, 0, (size_t)(&__bss_end - &__bss_start));
  semihost(0x18, (void *)(main() ? 0x20023 : 0x20026)); /* an error, or the end of the application */
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) static const struct {
  void *stack;
  void (*reset)(void);
} vectors = {&__stack_top, reset};
