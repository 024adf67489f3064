// The two words a Cortex-M reads when it starts: the end of its memory, for the stack, and where to begin. The memory is that of Arm's
// AN386 board, which QEMU emulates; another board has its own linker script.
extern "C" void _start();

namespace {

constexpr unsigned kEndOfMemory = 0x20400000;

}  // namespace

extern "C" __attribute__((section(".vectors"), used)) void (*const everbit_vectors[])() = {
    reinterpret_cast<void (*)()>(kEndOfMemory), _start};
