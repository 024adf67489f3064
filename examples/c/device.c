#include "device.h"

#include <stdlib.h>

void *aligned_memory(size_t bytes) {
  unsigned char *memory = malloc(bytes + EVERBIT_ALIGNMENT);
  if (memory == NULL) {
    fprintf(stderr, "this machine has no %lu bytes left\n", (unsigned long)bytes);
    exit(1);
  }
  return memory + (0 - (uintptr_t)memory) % EVERBIT_ALIGNMENT;
}

void *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  long size = ftell(file);
  void *content = aligned_memory((size_t)size);
  rewind(file);
  *bytes = fread(content, 1, (size_t)size, file);
  fclose(file);
  return content;
}

int write_to_file(void *file, const void *from, size_t bytes) { return fwrite(from, 1, bytes, file) == bytes ? 0 : 1; }

int read_from_file(void *file, void *to, size_t bytes) { return fread(to, 1, bytes, file) == bytes ? 0 : 1; }

void require(everbit_status status, const char *detail) {
  if (status == EVERBIT_OK) return;
  fprintf(stderr, "%s: %s\n", everbit_status_message(status), detail);
  exit(1);
}

everbit_learner *make_learner(const char *path, everbit_facts *facts) {
  size_t bytes = 0;
  const void *image = read_file(path, &bytes);
  const char *detail = "";
  everbit_program program;
  require(everbit_program_open(&program, image, bytes, &detail), detail);
  *facts = everbit_program_facts(&program);

  everbit_options options;
  require(everbit_options_init(&options, sizeof options, &program), "");
  options.classes = facts->known_classes + 3;
  options.replay_per_class = 20;
  options.replay_slots = 60;
  options.experience_patterns = 60;

  everbit_memory memory;
  void *workspace = aligned_memory(facts->workspace_bytes);
  require(everbit_learner_size(&program, &options, workspace, &memory, &detail), detail);
  everbit_learner *learner = NULL;
  require(everbit_learner_init(aligned_memory(memory.total), memory.total, &program, &options, &learner, &detail), detail);
  return learner;
}

void take_picture(uint8_t *picture, const everbit_facts *facts, int kind, uint32_t number) {
  uint32_t noise = number * 2654435761u + (uint32_t)kind;
  for (int y = 0; y < facts->height; ++y) {
    for (int x = 0; x < facts->width; ++x) {
      int along = kind == 0 ? x : kind == 1 ? y : x + y;
      int bright = (along + (int)(number % 7)) % 8 < 4 ? 160 : 40;
      for (int c = 0; c < facts->channels; ++c) {
        noise = noise * 1664525u + 1013904223u;
        *picture++ = (uint8_t)(bright + (int)(noise >> 26));
      }
    }
  }
}

static uint8_t *room_for_a_picture(const everbit_facts *facts) {
  return aligned_memory((size_t)facts->height * (size_t)facts->width * (size_t)facts->channels);
}

void learn_kinds(everbit_learner *learner, const everbit_facts *facts, int first, int last, int count) {
  uint8_t *picture = room_for_a_picture(facts);
  for (int i = 0; i < count; ++i) {
    for (int kind = first; kind <= last; ++kind) {
      take_picture(picture, facts, kind, (uint32_t)i);
      require(everbit_observe(learner, picture, facts->known_classes + kind), everbit_learner_detail(learner));
    }
  }
  int64_t steps = 0;
  require(everbit_begin_training(learner, 5, &steps), everbit_learner_detail(learner));
  for (; steps > 0; --steps) require(everbit_train_step(learner, NULL), everbit_learner_detail(learner));
  require(everbit_consolidate(learner), everbit_learner_detail(learner));
}

int count_right(everbit_learner *learner, const everbit_facts *facts, int kind, int count) {
  uint8_t *picture = room_for_a_picture(facts);
  int right = 0;
  for (int i = 0; i < count; ++i) {
    int32_t label = -1;
    take_picture(picture, facts, kind, 1000u + (uint32_t)i);
    require(everbit_predict(learner, picture, &label, NULL, NULL), everbit_learner_detail(learner));
    right += label == facts->known_classes + kind;
  }
  return right;
}
