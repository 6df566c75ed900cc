/*
 * What the measuring programs beside Linerate share: options of the form --name value, samples
 * with best and median, and the one JSON line each program prints.
 *
 * They are compiled by `cargo xtask bench` and are measured, never shipped.
 */
#ifndef LINERATE_PEERS_COMMON_H
#define LINERATE_PEERS_COMMON_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SAMPLES 4096

/* The value of `--name` among the arguments, or `otherwise`. */
static inline const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
			return argv[i + 1];
	return otherwise;
}

/* The number that is the value of `--name`, which must lie in low..=high. */
static inline long number(int argc, char **argv, const char *name, long otherwise, long low, long high)
{
	const char *text = option(argc, argv, name, NULL);
	char *end;

	if (text == NULL)
		return otherwise;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value < low || value > high) {
		fprintf(stderr, "--%s %s: expected a number from %ld to %ld\n", name, text, low, high);
		exit(2);
	}
	return value;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Prints one JSON line: the case, the best and the median of `count` samples of TSC cycles per
 * object, how many there were, and the rate of the TSC. Sorts the samples. */
static inline void print_samples(const char *name, unsigned burst, double *samples, unsigned count,
			  uint64_t tsc_hz)
{
	if (count == 0) {
		fprintf(stderr, "%s: no sample was completed\n", name);
		exit(1);
	}
	qsort(samples, count, sizeof(*samples), by_value);
	printf("{\"case\": \"%s\", \"burst\": %u, \"cycles_best\": %.4f, \"cycles_median\": %.4f, "
	       "\"samples\": %u, \"tsc_hz\": %llu}\n",
	       name, burst, samples[0], samples[count / 2], count, (unsigned long long)tsc_hz);
	fflush(stdout);
}

#endif
