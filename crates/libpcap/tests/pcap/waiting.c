/* Turns waiting off and on, as libpcap's own test of it does, and once more where the process may open no
   more descriptors. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct pcap pcap_t;
pcap_t *pcap_create(const char *, char *);
int pcap_activate(pcap_t *);
int pcap_setnonblock(pcap_t *, int, char *);
int pcap_getnonblock(pcap_t *, char *);
char *pcap_geterr(pcap_t *);

static void expect(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

int main(int count, char **words) {
    char error[256] = "";
    pcap_t *handle = pcap_create(words[1], error);
    expect(handle != NULL, "it is made");
    expect(pcap_setnonblock(handle, 1, error) == 0, "it may be told before it is activated");
    expect(pcap_getnonblock(handle, error) == -3, "and not asked");
    expect(pcap_activate(handle) >= 0, "it is activated");
    expect(pcap_getnonblock(handle, error) == 1, "it has kept what it was told");
    for (int wait = 1; wait >= 0; wait--) {
        for (int turn = 0; turn < 10; turn++) {
            expect(pcap_setnonblock(handle, wait, error) == 0, "it is told again");
            expect(pcap_getnonblock(handle, error) == wait, "it says what it was told");
        }
    }
    expect(pcap_setnonblock(handle, 1, error) == 0, "it does not wait");
    struct rlimit few = {40, 40};
    expect(setrlimit(RLIMIT_NOFILE, &few) == 0, "there are few descriptors");
    while (open("/dev/null", O_RDONLY) >= 0) {}
    error[0] = 0;
    printf("%d %s\n", pcap_setnonblock(handle, 0, error), error);
    printf("%s %d\n", pcap_geterr(handle), pcap_getnonblock(handle, error));
    return 0;
}
