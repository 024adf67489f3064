// What every layer offers, and what it is given when it runs.
//
// Adding a layer: one file here with its rules, one row in layer.cc, one lowering rule in Python, one row in the tests' table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../memory.h"
#include "../number_types.h"
#include "../parameter.h"
#include "../processor.h"
#include "../program.h"

namespace everbit {

// A gradient tensor: q_b-bit integers with one exponent, real value = values * 2^exponent.
struct Gradient {
  void* values = nullptr;  // nullptr: nobody needs it
  int32_t exponent = 0;
  bool present = false;    // some reader of the tensor has written it
};

struct GradientWith32BitAddresses {
  uint32_t values;
  int32_t exponent;
  bool present;
};
template <>
struct With32BitAddresses<Gradient> {
  using Type = GradientWith32BitAddresses;
};
static_assert(sizeof(void*) != 4 || sizeof(Gradient) == sizeof(GradientWith32BitAddresses));

// Everything one layer sees during one call.
struct Context {
  const Program& program;
  const LayerRecord& layer;
  int32_t batch;
  Widths widths;
  int threads;               // that may work on this call; scratch has room for as many

  void* const* activations;  // by tensor
  Gradient* gradients;       // by tensor
  Parameter* parameters;     // by parameter of the program
  BinaryWeights* binary;     // this layer's, a binary convolution only
  void* saved;               // kept from this layer's forward to its backward
  void* scratch;             // this call's own
  const uint8_t* images;     // input layer only: batch x height x width x channels
  bool training;             // saved will be read
  const Scale* step;         // learning rate / batch, by ParameterKind

  const TensorRecord& input(int k = 0) const { return program.tensor(layer.inputs[k]); }
  const TensorRecord& output() const { return program.tensor(layer.output); }
  template <typename T>
  const T* input_values(int k = 0) const { return static_cast<const T*>(activations[layer.inputs[k]]); }
  template <typename T>
  T* output_values() const { return static_cast<T*>(activations[layer.output]); }
  // A layer's k-th parameter, nullptr where the program has none.
  Parameter* parameter(int k) const {
    return layer.parameters[k] == kAbsent ? nullptr : &parameters[layer.parameters[k]];
  }
  const Gradient& output_gradient() const { return gradients[layer.output]; }
  bool needs_input_gradient(int k = 0) const { return gradients[layer.inputs[k]].values != nullptr; }
};

// What the memory planner asks.
struct Extent {
  const Program& program;
  const LayerRecord& layer;
  int32_t batch;
  Widths widths;
  int threads;
  Processor processor = this_processor();
};

inline Extent extent_of(const Context& c) { return {c.program, c.layer, c.batch, c.widths, c.threads, this_processor()}; }

struct LayerKind {
  const char* name;
  int inputs;
  ParameterKind parameters[kMaxParameters];  // kHead, which no layer has, where it has fewer
  // nullptr, or what is wrong with the layer's record. The tables and the graph are already known to be sound.
  const char* (*check)(const Program&, const LayerRecord&);
  void (*forward)(const Context&);
  // Gradient of the inputs from the gradient of the output, then the update of the layer's parameters. nullptr: cannot learn.
  void (*backward)(const Context&);
  bool backward_reads_input;
  size_t (*saved_bytes)(const Extent&);    // nullptr: none
  size_t (*scratch_bytes)(const Extent&);  // nullptr: none
};

const LayerKind& layer_kind(Operation operation);
bool valid_scale(Scale value);

// Bytes of one activation tensor for a batch.
size_t activation_bytes(const TensorRecord& tensor, int32_t batch);

// Calls f with values of the gradient's element type and of the accumulator that holds its sums (the bounds stand with each layer).
template <typename F>
void with_gradient_type(int q_b, F&& f) {
  switch (q_b) {
    case 8: f(int8_t{}, int32_t{}); break;
    case 16: f(int16_t{}, int32_t{}); break;
    default: f(int32_t{}, int64_t{});
  }
}

// Bytes of one accumulator of q_b-bit gradients.
inline size_t accumulator_bytes(int q_b) { return q_b == 32 ? sizeof(int64_t) : sizeof(int32_t); }

// Quantizes accumulated gradients of a tensor to q_b bits with one exponent, and adds them to what other readers of the tensor left
// there (docs/arithmetic.md, section 4). Overwrites `sums`.
template <typename Sum>
void write_gradient(Gradient& gradient, Sum* sums, size_t count, int32_t exponent, int q_b, int threads);

// The same for the k-th input of a layer, from one sum an element of it.
template <typename Sum>
void write_input_gradient(const Context& context, int k, Sum* sums, int32_t exponent);

// P <- P - lr * D for element i of a parameter; `step` is learning rate / batch times the layer's own factor, without exponents.
inline void update_parameter(Parameter& p, int32_t i, int64_t sum, Scale step, int32_t exponent) {
  const Scale by = shifted(step, exponent - p.range_exponent + p.width - 1);
  const int64_t moved = p.rounding.stochastic ? scale_randomly(sum, by, rounding_draw(p.rounding, i)) : scale(sum, by);
  p.set(i, saturate_symmetric(p.get(i) - moved, p.width));
}

// The same for `count` elements, at most 64, from `first` on; bit i of the result is [P[first + i] >= 0].
template <typename Sum>
uint64_t update_parameters(Parameter& p, int32_t first, int32_t count, const Sum* sums, Scale step, int32_t exponent);

inline Scale step_of(const Context& context, const Parameter& p) { return context.step[static_cast<int>(p.kind)]; }

}  // namespace everbit
