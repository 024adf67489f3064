/* Two learners in two threads, each through its whole life twice over; prints the digest of each life. lifecycle PROGRAM */
#include <everbit.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 12, CLASSES = 4 };

typedef struct life {
  const everbit_program *program;
  uint64_t seed;
  uint64_t digest;
  everbit_status status;
} life;

typedef struct store {
  unsigned char *bytes;
  size_t used;
} store;

static void *aligned(void *memory) { return (unsigned char *)memory + (0 - (uintptr_t)memory) % EVERBIT_ALIGNMENT; }

static int put(void *context, const void *from, size_t bytes) {
  store *to = context;
  memcpy(to->bytes + to->used, from, bytes);
  to->used += bytes;
  return 0;
}

static int get(void *context, void *to, size_t bytes) {
  store *from = context;
  memcpy(to, from->bytes + from->used, bytes);
  from->used += bytes;
  return 0;
}

#define TRY(call)                                                    \
  do {                                                               \
    own->status = (call);                                            \
    if (own->status != EVERBIT_OK) return;                           \
  } while (0)

static void learn(life *own, everbit_learner *learner, const everbit_facts *facts, uint8_t *image, uint8_t *latent) {
  size_t pixels = (size_t)facts->height * (size_t)facts->width * (size_t)facts->channels;
  uint32_t noise = (uint32_t)own->seed;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < IMAGES; ++i) {
      for (size_t k = 0; k < pixels; ++k) image[k] = (uint8_t)((noise = noise * 1664525u + 1013904223u) >> 24);
      int32_t label = facts->known_classes + (i + round) % CLASSES;
      if (i % 2 == 0) {
        TRY(everbit_observe(learner, image, label));
      } else {
        TRY(everbit_encode(learner, image, latent));
        TRY(everbit_observe_latent(learner, latent, label));
      }
    }
    int64_t steps;
    TRY(everbit_begin_training(learner, 2, &steps));
    while (steps-- > 0) TRY(everbit_train_step(learner, NULL));
    TRY(everbit_consolidate(learner));
  }
  int32_t label, logits[64], probabilities[64];
  TRY(everbit_predict(learner, image, &label, logits, probabilities));
  TRY(everbit_predict(learner, image, &label, NULL, NULL));
}

static void live(life *own, everbit_learner *learner, const everbit_facts *facts, uint8_t *image, uint8_t *latent) {
  learn(own, learner, facts, image, latent);
  if (own->status != EVERBIT_OK) return;
  TRY(everbit_digest(learner, &own->digest));
  size_t bytes = everbit_saved_bytes(learner);
  store saved = {malloc(bytes), 0};
  own->status = everbit_save(learner, put, &saved);
  saved.used = 0;
  if (own->status == EVERBIT_OK) own->status = everbit_restore(learner, get, &saved);
  saved.bytes[bytes / 2] ^= 1;
  saved.used = 0;
  everbit_status damaged = everbit_restore(learner, get, &saved);
  free(saved.bytes);
  if (own->status == EVERBIT_OK && damaged != EVERBIT_BAD_STATE) own->status = damaged;
  /* A learner that was refused a state begins anew, and comes to the same end. */
  uint64_t first = own->digest;
  learn(own, learner, facts, image, latent);
  everbit_digest(learner, &own->digest);
  if (own->digest != first) own->status = EVERBIT_BAD_STATE;
}

static void *run(void *context) {
  life *own = context;
  everbit_facts facts = everbit_program_facts(own->program);
  everbit_options options;
  everbit_options_init(&options, sizeof options, own->program);
  options.classes = facts.known_classes + CLASSES;
  options.replay_slots = 6;
  options.experience_patterns = IMAGES;
  options.batch_new = 4;
  options.batch_replayed = 4;
  options.stochastic_rounding = 1;
  options.seed = own->seed;
  void *workspace = malloc(facts.workspace_bytes + EVERBIT_ALIGNMENT);
  everbit_memory memory = {0};
  own->status = everbit_learner_size(own->program, &options, aligned(workspace), &memory, NULL);
  free(workspace);
  if (own->status != EVERBIT_OK) return NULL;
  /* Exactly as much as was asked for, so that a step beyond it is seen. */
  unsigned char *room = malloc(memory.total + EVERBIT_ALIGNMENT);
  unsigned char *start = aligned(room);
  uint8_t *image = malloc((size_t)facts.height * (size_t)facts.width * (size_t)facts.channels);
  uint8_t *latent = malloc(facts.latent_bytes);
  everbit_learner *learner = NULL;
  own->status = everbit_learner_init(start, memory.total, own->program, &options, &learner, NULL);
  if (own->status == EVERBIT_OK) live(own, learner, &facts, image, latent);
  free(latent);
  free(image);
  free(room);
  return NULL;
}

int main(int count, char **names) {
  FILE *file = count == 2 ? fopen(names[1], "rb") : NULL;
  if (file == NULL) return 2;
  enum { MOST = 1 << 20 };
  unsigned char *content = malloc(MOST + EVERBIT_ALIGNMENT);
  size_t bytes = fread(aligned(content), 1, MOST, file);
  fclose(file);
  everbit_program program;
  if (everbit_program_open(&program, aligned(content), bytes, NULL) != EVERBIT_OK) return 3;
  life alone = {&program, 5, 0, EVERBIT_OK};
  run(&alone);
  life lives[2] = {{&program, 5, 0, EVERBIT_OK}, {&program, 6, 0, EVERBIT_OK}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    if (pthread_create(&threads[i], NULL, run, &lives[i]) != 0) return 4;
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("%d %016" PRIx64 "\n", (int)alone.status, alone.digest);
  for (int i = 0; i < 2; ++i) printf("%d %016" PRIx64 "\n", (int)lives[i].status, lives[i].digest);
  free(content);
  return 0;
}
