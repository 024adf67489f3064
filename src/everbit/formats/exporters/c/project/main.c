/* Learns new classes from latents and images that lie in the program, tests what it learned, and prints a digest of it. The exit status is
 * 0 where the digest is that of the machine that exported the model. Replace the arrays by your sensor's images, and the rest may stay. */
#include <everbit.h>
#include <stddef.h>
#include <stdint.h>

#include "console.h"
#include "model.h"

/* All that the learner works in. */
static uint8_t arena[MODEL_ARENA_BYTES] __attribute__((aligned(EVERBIT_ALIGNMENT), section(".bss..arena")));

static void write_number(int64_t value) {
  char digits[21];
  char *at = digits + sizeof digits - 1;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  *at = '\0';
  do {
    *--at = (char)('0' + rest % 10);
  } while ((rest /= 10) != 0);
  if (value < 0) *--at = '-';
  console_write(at);
}

static void write_digest(uint64_t value) {
  char digits[17];
  for (int i = 0; i < 16; ++i) digits[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  digits[16] = '\0';
  console_write(digits);
}

static void write_fact(const char *name, int64_t value, const char *unit) {
  console_write(name);
  write_number(value);
  console_write(unit);
  console_write("\n");
}

static int failed(const char *what, everbit_status status, const char *detail) {
  console_write(what);
  console_write(": ");
  console_write(everbit_status_message(status));
  console_write(": ");
  console_write(detail);
  console_write("\n");
  return 1;
}

/* Trains on what was observed. */
static everbit_status learn(everbit_learner *learner) {
  int64_t steps = 0;
  everbit_status status = everbit_begin_training(learner, MODEL_EPOCHS, &steps);
  for (; status == EVERBIT_OK && steps > 0; --steps) status = everbit_train_step(learner, NULL);
  return status == EVERBIT_OK ? everbit_consolidate(learner) : status;
}

static everbit_status learn_latents(everbit_learner *learner) {
  for (int i = 0; i < MODEL_LATENTS; ++i) {
    everbit_status status = everbit_observe_latent(learner, model_latents[i], model_latent_labels[i]);
    if (status != EVERBIT_OK) return status;
  }
  return learn(learner);
}

static everbit_status learn_images(everbit_learner *learner) {
  for (int i = 0; i < MODEL_IMAGES; ++i) {
    everbit_status status = everbit_observe(learner, model_images[i], model_image_labels[i]);
    if (status != EVERBIT_OK) return status;
  }
  return learn(learner);
}

/* How many test images it gets right. */
static everbit_status test(everbit_learner *learner, int32_t *right) {
  *right = 0;
  for (int i = 0; i < MODEL_TESTS; ++i) {
    int32_t label = 0;
    everbit_status status = everbit_predict(learner, model_tests[i], &label, NULL, NULL);
    if (status != EVERBIT_OK) return status;
    *right += label == model_test_labels[i];
  }
  return EVERBIT_OK;
}

int main(void) {
  const char *detail = "";
  everbit_program program;
  everbit_status status = everbit_program_open(&program, model_program, MODEL_PROGRAM_BYTES, &detail);
  if (status != EVERBIT_OK) return failed("program", status, detail);
  everbit_options options;
  status = model_options(&options, &program);
  if (status != EVERBIT_OK) return failed("options", status, "");
  everbit_learner *learner = NULL;
  status = everbit_learner_init(arena, sizeof arena, &program, &options, &learner, &detail);
  if (status != EVERBIT_OK) return failed("learner", status, detail);

  everbit_memory memory;
  everbit_learner_memory(learner, &memory);
  console_write("model: " MODEL_NAME "\n");
  write_fact("arena: ", (int64_t)sizeof arena, " bytes");
  write_fact("learner: ", (int64_t)memory.total, " bytes");
  write_fact("  state: ", (int64_t)memory.state, " bytes");
  write_fact("  experience: ", (int64_t)memory.experience, " bytes");
  write_fact("  fixed: ", (int64_t)memory.fixed, " bytes");
  write_fact("  shared: ", (int64_t)memory.shared, " bytes");

  status = learn_latents(learner);
  if (status == EVERBIT_OK) status = learn_images(learner);
  int32_t right = 0;
  if (status == EVERBIT_OK) status = test(learner, &right);
  uint64_t digest = 0;
  if (status == EVERBIT_OK) status = everbit_digest(learner, &digest);
  if (status != EVERBIT_OK) return failed("learning", status, everbit_learner_detail(learner));

  write_fact("right: ", right, " of the test images");
  write_fact("tests: ", MODEL_TESTS, "");
  console_write("digest: ");
  write_digest(digest);
  console_write("\n");
  if (console_stack_used() >= 0) write_fact("stack: ", console_stack_used(), " bytes");
  int same = digest == MODEL_DIGEST && right == MODEL_TESTS_RIGHT && memory.total == sizeof arena;
  console_write(same ? "the same as where it was exported\n" : "NOT the same as where it was exported\n");
  return same ? 0 : 1;
}
