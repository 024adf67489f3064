/* learn_two_classes PROGRAM SAVED: learns upright and level stripes, and saves what it learned. */
#include <inttypes.h>

#include "device.h"

int main(int count, char **names) {
  if (count != 3) {
    fprintf(stderr, "use: learn_two_classes PROGRAM SAVED\n");
    return 2;
  }
  everbit_facts facts;
  everbit_learner *learner = make_learner(names[1], &facts);
  learn_kinds(learner, &facts, 0, 1, 20);
  printf("upright stripes: %d of 20 right\n", count_right(learner, &facts, 0, 20));
  printf("level stripes: %d of 20 right\n", count_right(learner, &facts, 1, 20));

  FILE *file = fopen(names[2], "wb");
  if (file == NULL) {
    fprintf(stderr, "cannot write %s\n", names[2]);
    return 1;
  }
  require(everbit_save(learner, write_to_file, file), everbit_learner_detail(learner));
  fclose(file);
  uint64_t digest = 0;
  require(everbit_digest(learner, &digest), "");
  printf("saved %lu bytes, digest %016" PRIx64 "\n", (unsigned long)everbit_saved_bytes(learner), digest);
  return 0;
}
