// A whole network on two mini-batches: every activation, gradient and parameter goes into the digest, and the head.
#include <cstring>

#include "../layers/layers.h"
#include "golden_vectors.h"
#include "learned.h"

namespace everbit::selftest {
namespace {

struct Parts {
  Network network;
  Head head;
  uint8_t* codes;
  uint8_t* image;
  uint16_t* labels;
};

// Sizes everything, or, once the room is known to be enough, connects it.
bool build(const NetworkVector& vector, const Program& program, Room& room, Parts& parts) {
  const size_t batch = static_cast<size_t>(vector.batch);
  Block* blocks = room.take<Block>(Network::block_count(program));
  parts.codes = room.take<uint8_t>(batch * latent_bytes(program));
  parts.image = room.take<uint8_t>(static_cast<size_t>(program.input_tensor().elements()));
  parts.labels = room.take<uint16_t>(batch);
  if (!room.enough) return false;
  const size_t head_bytes = Head::scratch_bytes(program, kNetworkClasses, vector.batch, kThreads);
  Region counted, unused;
  size_t shared = 0;
  const auto layout = [&](Region& persistent, Region& fixed) {
    shared = parts.network.plan(program, vector.widths, vector.batch, kThreads, head_bytes, true, true, blocks, persistent, fixed);
    parts.head.plan(program, vector.widths, kNetworkClasses, kThreads, HeadRule::kCwr, persistent, fixed);
  };
  layout(counted, unused);
  uint8_t* persistent_memory = room.take<uint8_t>(counted.used);
  uint8_t* fixed_memory = room.take<uint8_t>(unused.used);
  uint8_t* shared_memory = room.take<uint8_t>(shared);
  if (!room.enough) return false;
  Region persistent{persistent_memory}, fixed{fixed_memory};
  layout(persistent, fixed);
  parts.network.start(shared_memory, blocks);
  parts.head.start();
  return true;
}

void add_tensors(Digest& digest, const Network& network, int32_t batch) {
  const Program& program = network.program();
  for (int32_t i = program.latent_layer(); i < program.layer_count(); ++i) {
    const int32_t tensor = program.layer(i).output;
    add_activation(digest, program.tensor(tensor), network.activation(tensor), batch);
  }
  for (int32_t i = program.latent_layer() + 1; i < program.layer_count(); ++i) {
    const int32_t tensor = program.layer(i).output;
    const Gradient& gradient = network.gradient(tensor);
    if (gradient.values == nullptr || !gradient.present) continue;
    digest.add(gradient.exponent);
    const int32_t count = batch * program.tensor(tensor).elements();
    for (int32_t k = 0; k < count; ++k) digest.add(load_value(gradient.values, k, network.widths().non_binary));
  }
}

}  // namespace

Outcome run_network(const NetworkVector& vector, Room& room) {
  Digest digest;
  Program program;
  Parts parts;
  if (program.open(bytes_of(vector.image), vector.image.bytes) != nullptr) return {true, 0};
  if (!build(vector, program, room, parts)) return {false, 0};
  const size_t code_bytes = latent_bytes(program);
  const size_t pixels = static_cast<size_t>(program.input_tensor().elements());
  const TensorRecord& latent = program.latent_tensor();
  const size_t stride = activation_bytes(latent, 1);

  Numbers numbers{{vector.seed}, Fill::kRandom};
  for (int32_t i = 0; i < vector.batch; ++i) {
    numbers.write(parts.image, pixels, 0, 255);
    parts.network.forward_frozen(parts.image);
    latent_encode(program, parts.network.activation(latent_input(program)), parts.codes + static_cast<size_t>(i) * code_bytes);
  }
  digest.add(parts.codes, static_cast<size_t>(vector.batch) * code_bytes);

  uint8_t kept[kNetworkClasses] = {};
  uint32_t counts[kNetworkClasses] = {};
  for (const int32_t label : kNetworkLabels) kept[label] = 1;
  parts.head.begin_experience(kept);
  for (int step = 0; step < 2; ++step) {
    Scale rates[kParameterKinds];
    for (int kind = 0; kind < kParameterKinds; ++kind) {
      rates[kind] = kRates[kind] * reciprocal(static_cast<uint32_t>(vector.batch));
    }
    for (int32_t i = 0; i < vector.batch; ++i) {
      parts.labels[i] = static_cast<uint16_t>(kNetworkLabels[numbers.next(0, sizeof kNetworkLabels / sizeof kNetworkLabels[0] - 1)]);
      ++counts[parts.labels[i]];
      latent_decode(program, parts.codes + static_cast<size_t>(i) * code_bytes,
                    static_cast<uint8_t*>(parts.network.activation(latent_output(program))) + static_cast<size_t>(i) * stride);
    }
    parts.network.forward_learnable(vector.batch, true);
    parts.network.train_head(parts.head, parts.labels, vector.batch, rates[static_cast<int>(ParameterKind::kHead)], Rounding{});
    parts.network.backward(vector.batch, rates, Rounding{});
    add_tensors(digest, parts.network, vector.batch);
    add_parameters(digest, parts.network);
    add_head(digest, program, vector.widths.non_binary, kNetworkClasses, parts.head.temporary());
  }
  parts.head.end_experience(counts);
  add_head(digest, program, vector.widths.non_binary, kNetworkClasses, parts.head.consolidated());
  return {true, digest.value()};
}

}  // namespace everbit::selftest
