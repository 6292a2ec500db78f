/* Four policies with Normal rewards, by hand: xoshiro256++, ziggurat normals, widths by table, one thread per core.

   Trials run in groups of LANES side by side, so that the search for the largest index is one vector operation per arm and the
   steps of one trial, each of which waits for the one before, overlap with those of the others. Blocks of trials have their own
   seed and are handed out as threads become free; the result does not depend on how many threads there are. */

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#ifndef ARMS
#define ARMS 5
#endif
#define LANES 16   /* trials side by side; 4, 8 and 32 were no faster */
#define BLOCK 512  /* trials with one seed, a whole number of groups */
#define LAYERS 256 /* of the ziggurat: 99% of the draws need one multiplication */
#define MAX_THREADS 256

/* Random bits: xoshiro256++ (Blackman and Vigna 2019), seeded by splitmix64 as its authors advise. */

typedef struct { uint64_t s[4]; } Random;

static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static inline uint64_t next_bits(Random *random) {
    uint64_t *s = random->s;
    const uint64_t result = rotate(s[0] + s[3], 23) + s[0], shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

static Random seeded(uint64_t seed) {
    Random random;
    seed *= 4 * 0x9E3779B97F4A7C15u; /* four words of splitmix64's sequence for each block */
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        random.s[i] = z ^ (z >> 31);
    }
    return random;
}

static double uniform(Random *random) { return ((next_bits(random) >> 11) + 0.5) * 0x1p-53; }

/* Standard normals: the ziggurat of Marsaglia and Tsang (2000), layer and position from different bits of one word. */

static const double START = 3.6541528853610088; /* where the tail begins and */
static const double AREA = 0.00492867323399;    /* the area of a layer, for 256 of them */
static double edge[LAYERS + 1];
static float scale[LAYERS];
static uint32_t inside[LAYERS];

static void make_ziggurat(void) {
    edge[0] = AREA * exp(0.5 * START * START);
    edge[1] = START;
    edge[LAYERS] = 0;
    for (int i = 2; i < LAYERS; i++)
        edge[i] = sqrt(-2 * log(AREA / edge[i - 1] + exp(-0.5 * edge[i - 1] * edge[i - 1])));
    for (int i = 0; i < LAYERS; i++) {
        scale[i] = (float)(edge[i] * 0x1p-31);
        inside[i] = (uint32_t)(edge[i + 1] / edge[i] * 0x1p31);
    }
}

static double tail(Random *random) {
    double beyond, bound;
    do {
        beyond = -log(uniform(random)) / START;
        bound = -log(uniform(random));
    } while (2 * bound < beyond * beyond);
    return START + beyond;
}

static int below_curve(Random *random, int layer, double x) {
    double low = exp(0.5 * (x * x - edge[layer] * edge[layer]));
    double high = exp(0.5 * (x * x - edge[layer + 1] * edge[layer + 1]));
    return low + uniform(random) * (high - low) < 1;
}

static inline float normal_from(uint64_t bits, Random *random);

/* The 1% that are not plainly inside a layer; apart, so that the rest stays short where it is inlined. */
static __attribute__((noinline)) float rare_normal(Random *random, int layer, int32_t position) {
    if (layer == 0) return (float)(position < 0 ? -tail(random) : tail(random));
    float x = (float)position * scale[layer];
    return below_curve(random, layer, x) ? x : normal_from(next_bits(random), random);
}

static inline float normal_from(uint64_t bits, Random *random) {
    int layer = bits & (LAYERS - 1);
    int32_t position = (int32_t)(bits >> 32);
    uint32_t distance = position < 0 ? -(uint32_t)position : (uint32_t)position;
    if (__builtin_expect(distance < inside[layer], 1)) return (float)position * scale[layer];
    return rare_normal(random, layer, position);
}

/* One for each lane. First all the bits, as the state of the generator then stays in registers. */
static inline void draw_normals(Random *random, float normals[LANES]) {
    Random local = *random;
    uint64_t bits[LANES];
    for (int lane = 0; lane < LANES; lane++) bits[lane] = next_bits(&local);
    *random = local;
    for (int lane = 0; lane < LANES; lane++) normals[lane] = normal_from(bits[lane], random);
}

/* The simulation. A policy has two tables by pulls: by what a sum is multiplied, and the width, which lil' UCB adds to that and
   which is the standard deviation of the posterior in Thompson sampling; the greedy policies have none. */

enum { LIL_UCB, GREEDY, EPSILON_GREEDY, THOMPSON };

typedef float Floats[ARMS][LANES];
typedef int32_t Ints[ARMS][LANES];

typedef struct {
    int policy;
    long trials, steps;
    float epsilon;
    const float *mean, *inverse, *width;
    double *sums; /* for each block: the sum of each arm's error, then of its square */
    atomic_long next_block;
} Job;

static inline void choose_largest(const Floats values, int32_t arms[LANES]) {
    float best[LANES];
    for (int lane = 0; lane < LANES; lane++) best[lane] = values[0][lane], arms[lane] = 0;
    for (int k = 1; k < ARMS; k++)
        for (int lane = 0; lane < LANES; lane++) {
            arms[lane] = values[k][lane] > best[lane] ? k : arms[lane];
            best[lane] = values[k][lane] > best[lane] ? values[k][lane] : best[lane];
        }
}

/* With probability epsilon an arm at random: whether, and which, from different halves of one word. */
static inline void explore(Random *random, float epsilon, int32_t arms[LANES]) {
    const uint32_t below = (uint32_t)(epsilon * 0x1p32f);
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t bits = next_bits(random);
        int32_t other = (int32_t)((bits >> 32) * ARMS >> 32);
        arms[lane] = (uint32_t)bits < below ? other : arms[lane];
    }
}

static inline void choose_drawn(Random *random, const Floats index, const Floats width, int32_t arms[LANES]) {
    Floats drawn;
    for (int k = 0; k < ARMS; k++) {
        draw_normals(random, drawn[k]);
        for (int lane = 0; lane < LANES; lane++) drawn[k][lane] = index[k][lane] + width[k][lane] * drawn[k][lane];
    }
    choose_largest(drawn, arms);
}

/* Compiled once for each policy, which is a constant wherever it is called. */
static inline __attribute__((always_inline)) void run_group(
    const int policy, const Job *job, Random *random, long first, double *sums) {
    Floats total, index, width;
    Ints pulls;
    float noise[LANES];
    for (int k = 0; k < ARMS; k++) {
        draw_normals(random, noise);
        for (int lane = 0; lane < LANES; lane++) {
            total[k][lane] = job->mean[k] + noise[lane];
            index[k][lane] = total[k][lane] * job->inverse[1] + (policy == LIL_UCB ? job->width[1] : 0);
            width[k][lane] = job->width[1];
            pulls[k][lane] = 1;
        }
    }
    for (long step = ARMS; step < job->steps; step++) {
        int32_t arms[LANES];
        if (policy == THOMPSON) choose_drawn(random, index, width, arms);
        else choose_largest(index, arms);
        if (policy == EPSILON_GREEDY) explore(random, job->epsilon, arms);
        draw_normals(random, noise);
        for (int lane = 0; lane < LANES; lane++) {
            int32_t arm = arms[lane], count = ++pulls[arm][lane];
            float sum = total[arm][lane] += job->mean[arm] + noise[lane];
            index[arm][lane] = sum * job->inverse[count] + (policy == LIL_UCB ? job->width[count] : 0);
            if (policy == THOMPSON) width[arm][lane] = job->width[count];
        }
    }
    long lanes = job->trials - first < LANES ? job->trials - first : LANES;
    for (int k = 0; k < ARMS; k++)
        for (int lane = 0; lane < lanes; lane++) {
            double error = (double)total[k][lane] / pulls[k][lane] - job->mean[k];
            sums[k] += error;
            sums[ARMS + k] += error * error;
        }
}

static void run_any_group(const Job *job, Random *random, long first, double *sums) {
    switch (job->policy) {
    case LIL_UCB: return run_group(LIL_UCB, job, random, first, sums);
    case GREEDY: return run_group(GREEDY, job, random, first, sums);
    case EPSILON_GREEDY: return run_group(EPSILON_GREEDY, job, random, first, sums);
    case THOMPSON: return run_group(THOMPSON, job, random, first, sums);
    }
}

static void *work(void *argument) {
    Job *job = argument;
    for (;;) {
        long block = atomic_fetch_add(&job->next_block, 1), first = block * BLOCK;
        if (first >= job->trials) return 0;
        Random random = seeded((uint64_t)block + 1);
        for (long trial = first; trial < first + BLOCK && trial < job->trials; trial += LANES)
            run_any_group(job, &random, trial, job->sums + block * 2 * ARMS);
    }
}

/* How many trials there are to a block, for whoever allocates `sums`: zeros, (blocks, 2, ARMS). */
long block_size(void) { return BLOCK; }

/* Runs all trials of a policy (its place in the list above) on this many threads, of which the caller's is one. */
void simulate(int policy, long trials, long steps, float epsilon, const float *mean, const float *inverse, const float *width,
              double *sums, int threads) {
    Job job = {.policy = policy, .trials = trials, .steps = steps, .epsilon = epsilon,
               .mean = mean, .inverse = inverse, .width = width, .sums = sums};
    pthread_t others[MAX_THREADS];
    int started = 0;
    make_ziggurat();
    while (started < threads - 1 && started < MAX_THREADS && !pthread_create(&others[started], 0, work, &job)) started++;
    work(&job);
    while (started) pthread_join(others[--started], 0);
}
