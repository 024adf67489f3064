/* What both examples need of a device: memory at aligned places, files, a camera. */
#ifndef DEVICE_H
#define DEVICE_H

#include <everbit.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Memory at a multiple of EVERBIT_ALIGNMENT; stops the program where there is none. */
void *aligned_memory(size_t bytes);

/* A file's content in aligned memory; stops the program where it cannot be read. */
void *read_file(const char *path, size_t *bytes);

/* Callbacks for everbit_save() and everbit_restore(); the context is a FILE. */
int write_to_file(void *file, const void *from, size_t bytes);
int read_from_file(void *file, void *to, size_t bytes);

/* Stops the program with the words of a failure, if it is one. */
void require(everbit_status status, const char *detail);

/* A learner of two new classes, and a third for later, on the program in a file. */
everbit_learner *make_learner(const char *path, everbit_facts *facts);

/* The camera: noise with upright, level or slanting stripes, by `kind` 0, 1, 2. Other numbers give other pictures. */
void take_picture(uint8_t *picture, const everbit_facts *facts, int kind, uint32_t number);

/* Learns `count` pictures of each kind from `first` to `last` as one experience. */
void learn_kinds(everbit_learner *learner, const everbit_facts *facts, int first, int last, int count);

/* How many of `count` new pictures of a kind the learner gets right. */
int count_right(everbit_learner *learner, const everbit_facts *facts, int kind, int count);

#endif
