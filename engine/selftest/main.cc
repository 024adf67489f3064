// everbit_selftest [ISA]
//
// Runs every golden vector on an instruction set, or on each that this processor has, and prints a table. Exit status: 0 where all agree,
// 1 where one does not, 2 where the processor lacks the instruction set.
#include <cstdio>
#include <cstring>

#include "../kernels/isa.h"
#include "golden_vectors.h"

#ifndef EVERBIT_SELFTEST_BYTES
#define EVERBIT_SELFTEST_BYTES (3 << 20)
#endif

namespace everbit::selftest {
namespace {

alignas(kAlignment) uint8_t memory[EVERBIT_SELFTEST_BYTES];

// One line of the table. No printf: on a microcontroller it would bring floating point along.
class Line {
 public:
  Line& text(const char* words, size_t width = 0) {
    const size_t start = used_;
    while (*words != '\0' && used_ < sizeof line_ - 1) line_[used_++] = *words++;
    while (used_ - start < width && used_ < sizeof line_ - 1) line_[used_++] = ' ';
    return *this;
  }
  Line& hexadecimal(uint64_t value) {
    char digits[17] = {};
    for (int i = 0; i < 16; ++i) digits[i] = "0123456789abcdef"[(value >> (60 - 4 * i)) & 15];
    return text(digits);
  }
  Line& decimal(int32_t value) {
    char digits[12] = {};
    int at = 11;
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
    } while ((value /= 10) != 0);
    return text(digits + at);
  }
  void print() {
    line_[used_] = '\0';
    std::fputs(line_, stdout);
    std::fputs("\n", stdout);
  }

 private:
  char line_[160];
  size_t used_ = 0;
};

struct Tally {
  int32_t vectors = 0;
  int32_t different = 0;
  int32_t skipped = 0;
};

void report(const char* name, const char* what, Outcome outcome, uint64_t golden, Tally& tally) {
  Line line;
  line.text("  ").text(name, 44).text(what, 9);
  ++tally.vectors;
  if (!outcome.ran) {
    ++tally.skipped;
    line.text("skipped: needs more memory").print();
    return;
  }
  line.hexadecimal(outcome.digest);
  if (outcome.digest == golden) {
    line.text("  ok").print();
    return;
  }
  ++tally.different;
  line.text("  DIFFERS from ").hexadecimal(golden).print();
}

// The status of main().
int run_all(Isa isa) {
  Tally tally;
  Line().text("instruction set ").text(isa_name(isa)).print();
  const auto room = [] { return Room{{memory, 0}, sizeof memory}; };
  for (const KernelVector& vector : kKernelVectors) {
    Room own = room();
    report(vector.name, "", run_kernel(vector, own), vector.golden, tally);
  }
  for (const NetworkVector& vector : kNetworkVectors) {
    Room own = room();
    report(vector.name, "", run_network(vector, own), vector.golden, tally);
  }
  for (const LearningRun& run : kLearningRuns) {
    Room own = room();
    const RunOutcome outcome = run_learning(run, own);
    report(run.name, "learned", outcome.learned, run.learned, tally);
    report(run.name, "state", outcome.state, run.state, tally);
  }
  Line().text(isa_name(isa)).text(": ").decimal(tally.vectors).text(" vectors, ").decimal(tally.different).text(" differ, ")
      .decimal(tally.skipped).text(" skipped").print();
  return tally.different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace everbit::selftest

int main(int argc, char** argv) {
  using namespace everbit;
  int status = 2;
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if ((argc > 1 && std::strcmp(argv[1], isa_name(isa)) != 0) || !select_isa(isa)) continue;
    const int own = selftest::run_all(isa);
    status = status == 1 ? 1 : own;
  }
  if (status == 2) std::fputs("this processor has no such instruction set\n", stdout);
  return status;
}
