/* learn_a_third PROGRAM SAVED: goes on from what learn_two_classes saved, and learns slanting stripes without forgetting the others. */
#include <inttypes.h>

#include "device.h"

int main(int count, char **names) {
  if (count != 3) {
    fprintf(stderr, "use: learn_a_third PROGRAM SAVED\n");
    return 2;
  }
  everbit_facts facts;
  everbit_learner *learner = make_learner(names[1], &facts);
  FILE *file = fopen(names[2], "rb");
  if (file == NULL) {
    fprintf(stderr, "cannot read %s\n", names[2]);
    return 1;
  }
  require(everbit_restore(learner, read_from_file, file), everbit_learner_detail(learner));
  fclose(file);
  uint64_t digest = 0;
  require(everbit_digest(learner, &digest), "");
  printf("restored, digest %016" PRIx64 "\n", digest);

  learn_kinds(learner, &facts, 2, 2, 20);
  static const char *const names_of_kinds[] = {"upright", "level", "slanting"};
  for (int kind = 0; kind < 3; ++kind) printf("%s stripes: %d of 20 right\n", names_of_kinds[kind], count_right(learner, &facts, kind, 20));
  return 0;
}
