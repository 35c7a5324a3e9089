// Starts a C program on a Cortex-M4 with 4 MiB of RAM, as QEMU's board mps2-an386 has it. Link with newlib's rdimon.specs:
// the program then reads files, prints and exits by semihosting, that is, through the debugger or emulator.
#include <stdint.h>

extern void _start(void);
extern int _rename(const char *from, const char *to);

// newlib's rename needs hard links, which semihosting lacks.
int rename(const char *from, const char *to) { return _rename(from, to); }

static void reset(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;  // CPACR: enables the floating-point unit
  __asm__ volatile("dsb\n\tisb");
  _start();
}

static void fault(void) {  // ends the program; the exit status is 1
  register uint32_t operation __asm__("r0") = 0x18, reason __asm__("r1") = 0x20023;
  for (;;) __asm__ volatile("bkpt 0xAB" : "+r"(operation) : "r"(reason) : "memory");
}

// The end of the stack, and the functions for the reset and for the faults of the CPU.
__attribute__((section(".vectors"), used)) static const uintptr_t vectors[7] = {
    0x20400000, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
};
