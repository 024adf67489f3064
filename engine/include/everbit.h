/* everbit: a binary neural network that keeps learning, in integers, in memory that is yours.
 *
 * A PROGRAM is a network as constant bytes: layers, weights, scales, cut into a frozen part and a part that learns. `everbit export c`
 * writes one as a C array, to lie in flash. A LEARNER is what learns: the network's trainable numbers, a head with one row for each class,
 * and a replay memory of latents, which are what the frozen part makes of an image, in few bits.
 *
 * Learning comes in experiences. Observe some images of some classes, train for a few epochs, consolidate: the head averages its new rows
 * with the old ones (CWR*), and the replay memory keeps its share of what was seen. Mini-batches mix new latents with replayed ones, so
 * that old classes stay known. The same program, options and images leave the same bytes on every processor; everbit_digest() compares
 * them in one number.
 *
 * MEMORY. Nothing here allocates, reads files or keeps global state. everbit_learner_size() says how many bytes a learner takes,
 * everbit_learner_init() makes it in memory of the caller's, and that memory is all of it: to be rid of a learner, stop using the memory.
 * The program's bytes are read in place and must outlive the learner. Both begin at a multiple of EVERBIT_ALIGNMENT bytes. A learner stays
 * where it was made, for its memory holds addresses in itself: to move one, save and restore it. The stack is some kilobytes; with
 * other_bits 32 and vector kernels (AVX2, AVX-512, AMX, NEON) up to 210 KB.
 *
 * ERRORS. Every call that can fail returns a status; everbit_status_message() says what it means, everbit_learner_detail() what exactly
 * was wrong with the last call of that learner. A call that failed has changed nothing of a learner, but for everbit_restore().
 *
 * THREADS. One learner belongs to one thread at a time; two learners know nothing of each other, even of the same program. With
 * options.threads > 1 a learner uses threads of its own where the library was built with OpenMP. No result depends on them.
 *
 * NUMBERS. No floating point. Logits are in units of 2^-16, probabilities of 2^-30, learning rates are mantissa / 2^31 * 2^exponent.
 *
 * COMPATIBILITY. Functions, values and structs stay as they are within a major version of the library (its SONAME); everbit_options may
 * grow at its end, and its `size` says how much of it the caller knows.
 *
 * A whole program, which learns to tell bright images from dark ones:
 *
 *     #include <stdint.h>
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *     #include <string.h>
 *     #include <everbit.h>
 *
 *     static unsigned char *aligned(size_t bytes) {
 *       unsigned char *memory = malloc(bytes + EVERBIT_ALIGNMENT);
 *       return memory == NULL ? NULL : memory + (0 - (uintptr_t)memory) % EVERBIT_ALIGNMENT;
 *     }
 *
 *     int main(int count, char **names) {
 *       FILE *file = count == 2 ? fopen(names[1], "rb") : NULL;
 *       unsigned char *image = aligned(1 << 22);
 *       size_t bytes = file == NULL || image == NULL ? 0 : fread(image, 1, 1 << 22, file);
 *       everbit_program program;
 *       const char *detail = "";
 *       if (everbit_program_open(&program, image, bytes, &detail) != EVERBIT_OK) {
 *         fprintf(stderr, "cannot open the program: %s\n", detail);
 *         return 1;
 *       }
 *       everbit_facts facts = everbit_program_facts(&program);
 *       everbit_options options;
 *       everbit_options_init(&options, sizeof options, &program);
 *       options.classes = facts.known_classes + 2;
 *       everbit_memory memory;
 *       everbit_learner *learner;
 *       if (everbit_learner_size(&program, &options, aligned(facts.workspace_bytes), &memory, &detail) != EVERBIT_OK ||
 *           everbit_learner_init(aligned(memory.total), memory.total, &program, &options, &learner, &detail) != EVERBIT_OK) {
 *         fprintf(stderr, "cannot make a learner: %s\n", detail);
 *         return 1;
 *       }
 *       size_t pixels = (size_t)facts.height * (size_t)facts.width * (size_t)facts.channels;
 *       unsigned char *picture = aligned(pixels);
 *       for (int i = 0; i < 20; ++i) {
 *         memset(picture, i % 2 == 0 ? 40 + i : 180 + i, pixels);
 *         everbit_observe(learner, picture, facts.known_classes + i % 2);
 *       }
 *       int64_t steps;
 *       for (everbit_begin_training(learner, 5, &steps); steps > 0; --steps) everbit_train_step(learner, NULL);
 *       everbit_consolidate(learner);
 *       int32_t dark, bright;
 *       memset(picture, 45, pixels);
 *       everbit_predict(learner, picture, &dark, NULL, NULL);
 *       memset(picture, 195, pixels);
 *       everbit_predict(learner, picture, &bright, NULL, NULL);
 *       printf("dark is class %d, bright is class %d\n", (int)dark, (int)bright);
 *       return 0;
 *     }
 *
 * Build it with `cc example.c $(pkg-config --cflags --libs everbit)`. */
#ifndef EVERBIT_H
#define EVERBIT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EVERBIT_API __attribute__((visibility("default")))
#else
#define EVERBIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Of a program's bytes, a learner's memory and a workspace. */
#define EVERBIT_ALIGNMENT 64

/* What a call came to. */
typedef enum everbit_status {
  EVERBIT_OK = 0,
  EVERBIT_NULL = 1,          /* a pointer that must point to something is NULL */
  EVERBIT_MISALIGNED = 2,    /* memory that does not begin at a multiple of EVERBIT_ALIGNMENT */
  EVERBIT_BAD_PROGRAM = 3,   /* bytes that are no sound program, or a program that was never opened */
  EVERBIT_BAD_OPTIONS = 4,   /* an option out of range, or options of a newer header */
  EVERBIT_TOO_SMALL = 5,     /* less memory than everbit_learner_size() says */
  EVERBIT_NO_LEARNER = 6,    /* memory that everbit_learner_init() never made a learner in */
  EVERBIT_BAD_LABEL = 7,     /* a label below 0, or not below options.classes */
  EVERBIT_FULL = 8,          /* the experience holds options.experience_patterns patterns already */
  EVERBIT_WRONG_ORDER = 9,   /* a call that another must come before, or after */
  EVERBIT_BAD_NUMBER = 10,   /* a number out of range */
  EVERBIT_NO_CLASS = 11,     /* the learner knows no class yet */
  EVERBIT_BAD_STATE = 12,    /* saved bytes that are damaged, or of another program or other options */
  EVERBIT_NOT_WRITTEN = 13,  /* a write callback returned an error */
  EVERBIT_NOT_READ = 14      /* a read callback returned an error */
} everbit_status;

/* One sentence on a status; never NULL. The text is constant. */
EVERBIT_API const char *everbit_status_message(everbit_status status);

/* ---- Programs ---- */

/* A program whose bytes were checked. A copy is as good; any number of threads may use it at once. */
typedef struct everbit_program {
  uint64_t opaque[8];
} everbit_program;

typedef struct everbit_facts {
  int32_t height, width, channels; /* of an image: bytes in row-major order, channels last */
  int32_t known_classes;           /* labels 0 .. known_classes - 1 are known before anything is learned */
  int32_t features;                /* numbers that the head reads */
  int32_t reserved;
  size_t latent_bytes;    /* of a stored latent */
  size_t workspace_bytes; /* that everbit_learner_size() needs while it runs */
} everbit_facts;

/* Checks `bytes` bytes at `image` and points `program` at them. detail: NULL, or set to what is wrong, or to an empty text; constant. NULL,
 * MISALIGNED, BAD_PROGRAM. */
EVERBIT_API everbit_status everbit_program_open(everbit_program *program, const void *image, size_t bytes, const char **detail);

/* All 0 of a program that was never opened. */
EVERBIT_API everbit_facts everbit_program_facts(const everbit_program *program);

/* ---- Options ---- */

/* The real number mantissa / 2^31 * 2^exponent; 2^30 <= mantissa < 2^31, or both 0. */
typedef struct everbit_rate {
  int32_t mantissa;
  int32_t exponent;
} everbit_rate;

/* The nearest rate to numerator / denominator, such as everbit_ratio(3, 100). A denominator of 0 gives a rate that is refused. */
EVERBIT_API everbit_rate everbit_ratio(uint32_t numerator, uint32_t denominator);

/* Kinds of trainable numbers, each with its own learning rate. */
enum { EVERBIT_HEAD, EVERBIT_BINARY, EVERBIT_NORM, EVERBIT_BIAS, EVERBIT_WEIGHT, EVERBIT_KINDS };

/* How an experience enters the head. */
enum {
  EVERBIT_CWR = 0,  /* CWR*: new rows are averaged with the old ones by the number of patterns each stands for */
  EVERBIT_PLAIN = 1 /* rows stay as training leaves them: plain fine-tuning */
};

typedef struct everbit_options {
  uint32_t size;               /* of the struct as the caller knows it; set by everbit_options_init() */
  int32_t classes;             /* most classes it can ever know, the program's own included: 1 .. 65534 */
  int32_t replay_slots;        /* latents that the replay memory holds; 0: none */
  int32_t replay_per_class;    /* of one class at most */
  int32_t experience_patterns; /* images in one experience at most */
  int32_t batch_new;           /* new patterns of a mini-batch */
  int32_t batch_replayed;      /* replayed patterns of a mini-batch */
  int32_t binary_bits;         /* of binary layers' latent weights: 1 (they are frozen), 4, 8, 16, 32 */
  int32_t other_bits;          /* of gradients and everything else that learns: 8, 16, 32 */
  int32_t head;                /* EVERBIT_CWR or EVERBIT_PLAIN */
  int32_t train_body;          /* 0: the head alone learns */
  int32_t count_replayed;      /* 0: CWR* counts the experience's own patterns alone */
  int32_t stochastic_rounding; /* 0: updates are rounded to nearest; else by draws of the seed */
  int32_t threads;             /* 1 .. 256 */
  uint64_t seed;               /* of every shuffle and draw */
  everbit_rate rates[EVERBIT_KINDS];
} everbit_options;

/* Writes defaults, those of everbit.Settings: 50 classes beside the program's own, 30 latents each, mini-batches of 16 and 64. size:
 * sizeof(everbit_options). NULL, BAD_PROGRAM, BAD_OPTIONS. */
EVERBIT_API everbit_status everbit_options_init(everbit_options *options, size_t size, const everbit_program *program);

/* ---- Learners ---- */

typedef struct everbit_learner everbit_learner;

/* Bytes by purpose; the whole is `total`, which counts the parts and what lies between them. */
typedef struct everbit_memory {
  size_t state;      /* what a saved learner keeps: parameters, head, replay memory */
  size_t replay;     /* of which the replay memory */
  size_t experience; /* latents and labels of the experience being learned */
  size_t fixed;      /* tables and temporary head rows */
  size_t shared;     /* activations, gradients and scratch */
  size_t handle;     /* what this interface keeps */
  size_t total;
} everbit_memory;

/* What a learner with these options takes. workspace: facts.workspace_bytes bytes, needed during this call alone. detail: as above. NULL,
 * MISALIGNED, BAD_PROGRAM, BAD_OPTIONS. */
EVERBIT_API everbit_status everbit_learner_size(const everbit_program *program, const everbit_options *options, void *workspace,
                                                everbit_memory *memory, const char **detail);

/* Makes a learner that has learned nothing in `bytes` bytes of memory, at least `total` of everbit_learner_size(). NULL, MISALIGNED,
 * BAD_PROGRAM, BAD_OPTIONS, TOO_SMALL. */
EVERBIT_API everbit_status everbit_learner_init(void *memory, size_t bytes, const everbit_program *program, const everbit_options *options,
                                                everbit_learner **learner, const char **detail);

/* What was wrong with the learner's last call that failed; an empty text where none did. The text is constant. */
EVERBIT_API const char *everbit_learner_detail(const everbit_learner *learner);

/* The learner's memory, by purpose. NULL, NO_LEARNER. */
EVERBIT_API everbit_status everbit_learner_memory(const everbit_learner *learner, everbit_memory *memory);

/* Adds an image of class `label` to the experience; any label from 0 to options.classes - 1. NULL, NO_LEARNER, BAD_LABEL, FULL, WRONG_ORDER
 * while an experience is trained on. */
EVERBIT_API everbit_status everbit_observe(everbit_learner *learner, const uint8_t *image, int32_t label);

/* The same of a latent that everbit_encode() made of an image, here or elsewhere: facts.latent_bytes bytes. */
EVERBIT_API everbit_status everbit_observe_latent(everbit_learner *learner, const uint8_t *latent, int32_t label);

/* The latent of an image: facts.latent_bytes bytes. NULL, NO_LEARNER. */
EVERBIT_API everbit_status everbit_encode(everbit_learner *learner, const uint8_t *image, uint8_t *latent);

/* Begins to train on what was observed. steps: set to the calls of everbit_train_step() that `epochs` passes over the experience take; one
 * may stop earlier. epochs: 1 .. 65536. NULL, NO_LEARNER, BAD_NUMBER, WRONG_ORDER where nothing was observed or training has begun. */
EVERBIT_API everbit_status everbit_begin_training(everbit_learner *learner, int32_t epochs, int64_t *steps);

typedef struct everbit_step {
  int32_t right;    /* patterns of the mini-batch that were right before the step */
  int32_t patterns; /* in all */
} everbit_step;

/* One mini-batch: forward, backward, update. step: NULL, or set. NO_LEARNER, WRONG_ORDER before everbit_begin_training(). */
EVERBIT_API everbit_status everbit_train_step(everbit_learner *learner, everbit_step *step);

/* Ends the experience: consolidates the head, offers every pattern to the replay memory, forgets the experience. NO_LEARNER, WRONG_ORDER
 * before everbit_begin_training(). */
EVERBIT_API everbit_status everbit_consolidate(everbit_learner *learner);

/* The most likely of the known classes. logits, probabilities: NULL, or room for options.classes numbers; those of unknown classes are
 * INT32_MIN and 0. NULL, NO_LEARNER, NO_CLASS. */
EVERBIT_API everbit_status everbit_predict(everbit_learner *learner, const uint8_t *image, int32_t *label, int32_t *logits,
                                           int32_t *probabilities);

/* The same of a latent that everbit_encode() made of an image. */
EVERBIT_API everbit_status everbit_predict_latent(everbit_learner *learner, const uint8_t *latent, int32_t *label, int32_t *logits,
                                                  int32_t *probabilities);

/* 1 where the class was learned, or is the program's own; else 0. */
EVERBIT_API int everbit_knows(const everbit_learner *learner, int32_t label);

/* ---- State ---- */

/* One number over all that learning changes: the same on every processor for the same program, options and images. NULL, NO_LEARNER. */
EVERBIT_API everbit_status everbit_digest(const everbit_learner *learner, uint64_t *digest);

/* Takes, or gives, the next `bytes` bytes; returns 0, or anything else to give up. */
typedef int everbit_write(void *context, const void *from, size_t bytes);
typedef int everbit_read(void *context, void *to, size_t bytes);

/* Bytes that everbit_save() writes; 0 of no learner. */
EVERBIT_API size_t everbit_saved_bytes(const everbit_learner *learner);

/* Writes what the learner knows, with a digest of it, of the program and of the options that shape it. What was observed but not trained on
 * is left out. NULL, NO_LEARNER, WRONG_ORDER while an experience is trained on, NOT_WRITTEN. */
EVERBIT_API everbit_status everbit_save(everbit_learner *learner, everbit_write *write, void *context);

/* Reads what another learner saved, with the same program, classes, replay_slots, replay_per_class, binary_bits, other_bits and train_body,
 * so that this one goes on where that one stopped; forgets the experience at hand. NULL, NO_LEARNER, BAD_STATE, NOT_READ. After BAD_STATE
 * or NOT_READ the learner is as everbit_learner_init() made it, unless the first 64 bytes were refused, which changes nothing. */
EVERBIT_API everbit_status everbit_restore(everbit_learner *learner, everbit_read *read, void *context);

#ifdef __cplusplus
}
#endif

#endif
