/* Leaves callbacks by longjmp(3) with packets held back, and goes on in different ways; or a process by
   fork(2). */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct pcap pcap_t;
struct header {
    long seconds, rest;
    unsigned captured, length;
};
typedef void (*handler)(unsigned char *, const struct header *, const unsigned char *);
pcap_t *pcap_open_live(const char *, int, int, int, char *);
int pcap_dispatch(pcap_t *, int, handler, unsigned char *);
int pcap_inject(pcap_t *, const void *, size_t);
int pcap_setnonblock(pcap_t *, int, char *);
void pcap_close(pcap_t *);

static jmp_buf out;
static unsigned forwarded, seen;
static pcap_t *into;

static void leave(unsigned char *user, const struct header *header, const unsigned char *packet) {
    if (pcap_inject(into, packet, header->captured) < 0) abort();
    if (++forwarded == 5) longjmp(out, 1);
}

static void count(unsigned char *user, const struct header *header, const unsigned char *packet) {
    if (packet[59] != seen++) abort();
}

static pcap_t *open_port(const char *name) {
    char words[256];
    pcap_t *handle = pcap_open_live(name, 65535, 0, 0, words);
    if (!handle || pcap_setnonblock(handle, 1, words) < 0) abort();
    return handle;
}

static void send_one(pcap_t *handle, unsigned number) {
    unsigned char packet[60] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
    packet[59] = number;
    if (pcap_inject(handle, packet, sizeof packet) < 0) abort();
}

/* Sends from further down the stack than the callback was. */
static void send_deep(pcap_t *handle, unsigned number) {
    volatile char deep[65536];
    memset((char *)deep, number, sizeof deep);
    send_one(handle, number);
}

/* The child closes a port whose helper is a thread of the parent's. */
static int close_in_a_child(const char *name) {
    pcap_t *handle = open_port(name);
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        pcap_close(handle);
        exit(0);
    }
    waitpid(child, &status, 0);
    pcap_close(handle);
    return status;
}

int main(int count_of, char **words) {
    if (!strcmp(words[1], "fork")) return close_in_a_child(words[2]) != 0;
    pcap_t *a = open_port("ring:a"), *b = open_port("ring:a");
    pcap_t *c = open_port("ring:c"), *d = open_port("ring:c");
    into = c;
    for (unsigned number = 0; number < 10; number++) send_one(a, number);
    if (!setjmp(out)) {
        pcap_dispatch(b, -1, leave, NULL);
        abort();
    }
    unsigned expected = 5;
    if (!strcmp(words[1], "send")) {
        send_one(c, expected++);
    } else if (!strcmp(words[1], "send-deep")) {
        send_deep(c, expected++);
    } else if (!strcmp(words[1], "read")) {
        pcap_dispatch(b, -1, leave, NULL);
        expected = 10;
    } else {
        pcap_close(c);
    }
    pcap_dispatch(d, -1, count, NULL);
    printf("%u of %u\n", seen, expected);
    return seen != expected;
}
