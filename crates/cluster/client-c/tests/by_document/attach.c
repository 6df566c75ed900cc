/* A consumer that has nothing of this repository but two of its pages: docs/cluster.md for the socket and the
 * figures, docs/shared-memory.md for the files. It looks at every field they name, takes three packets, and
 * returns one, changes and sends one, sends one and keeps it for a while, and makes one of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define HOLDS(what)                                                             \
	do {                                                                    \
		if (!(what)) {                                                  \
			printf("line %d: %s does not hold\n", __LINE__, #what); \
			return 1;                                               \
		}                                                               \
	} while (0)

enum { DIRECTORY, PACKETS, CHANNEL, DOORBELL, FIGURES, FILES };

#define EMPTY (1u << 30)
#define KEPT (1u << 31)

static uint32_t u32(const void *at)
{
	uint32_t value;
	memcpy(&value, at, 4);
	return value;
}

static uint64_t u64(const void *at)
{
	uint64_t value;
	memcpy(&value, at, 8);
	return value;
}

/* One end of a ring: where it is, and this side's own position. */
struct ring {
	_Atomic uint64_t *tail, *head, *sleeps, *words;
	uint64_t cells, position;
};

static struct ring ring_at(char *start, uint64_t cells)
{
	struct ring ring = {
		(_Atomic uint64_t *)start, (_Atomic uint64_t *)(start + 64),
		(_Atomic uint64_t *)(start + 128), (_Atomic uint64_t *)(start + 192), cells, 0,
	};
	return ring;
}

/* Takes a word; waits for it at the doorbell. 0 when none comes within ten seconds. */
static int take(struct ring *ring, int doorbell, uint64_t *word)
{
	for (;;) {
		uint64_t tail = atomic_load_explicit(ring->tail, memory_order_acquire);
		if (tail - ring->position > ring->cells)
			return 0;
		if (tail != ring->position) {
			*word = atomic_load_explicit(&ring->words[ring->position & (ring->cells - 1)],
						     memory_order_relaxed);
			ring->position++;
			atomic_store_explicit(ring->head, ring->position, memory_order_release);
			return 1;
		}
		char bytes[64];
		while (recv(doorbell, bytes, sizeof bytes, MSG_DONTWAIT) == sizeof bytes)
			;
		atomic_store(ring->sleeps, 1);
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(ring->tail) == ring->position) {
			struct pollfd waited = {doorbell, POLLIN, 0};
			if (poll(&waited, 1, 10000) != 1)
				return 0;
		}
		atomic_store(ring->sleeps, 0);
	}
}

static void put(struct ring *ring, uint64_t word)
{
	atomic_store_explicit(&ring->words[ring->position & (ring->cells - 1)], word, memory_order_relaxed);
	ring->position++;
}

/* Tells the other side of what was put, and wakes it. */
static void publish(struct ring *ring, int doorbell)
{
	atomic_store_explicit(ring->tail, ring->position, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(ring->sleeps) && atomic_exchange(ring->sleeps, 0))
		(void)!send(doorbell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The answer to a message, and what comes with it; how many descriptors, or -1. */
static int ask(int socket, char message[512], int files[FILES])
{
	char control[CMSG_SPACE(FILES * sizeof(int))];
	struct iovec bytes = {message, 512};
	struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
				.msg_controllen = sizeof control};
	if (send(socket, message, 512, MSG_NOSIGNAL) != 512 || recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != 512)
		return -1;
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	if (!rights || rights->cmsg_type != SCM_RIGHTS)
		return 0;
	int count = (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(files, CMSG_DATA(rights), (size_t)count * sizeof(int));
	return count;
}

static uint64_t length_of(int file)
{
	struct stat status;
	return fstat(file, &status) ? 0 : (uint64_t)status.st_size;
}

static int has_seals(int file, int seals)
{
	return (fcntl(file, F_GET_SEALS) & seals) == seals;
}

int main(int argc, char **argv)
{
	int files[FILES];
	char message[512] = {0};
	HOLDS(argc == 3 && argv[1][0] == '@');

	/* The socket: an abstract name without a zero behind it. */
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t name = strlen(argv[1]);
	memcpy(address.sun_path, argv[1], name);
	address.sun_path[0] = 0;
	int socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	HOLDS(connect(socket_, (struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name)) == 0);
	uint32_t fields[3] = {1, 1, 2}; /* Version, Attach, what is granted. */
	memcpy(message, "LRCL", 4);
	memcpy(message + 4, fields, sizeof fields);
	strcpy(message + 24, argv[2]);
	HOLDS(ask(socket_, message, files) == FILES);
	HOLDS(!memcmp(message, "LRCL", 4) && u32(message + 4) == 1 && u32(message + 8) == 17);
	uint32_t line = u32(message + 12), spare = u32(message + 20);
	HOLDS(u32(message + 16) == 1 && line < 63 && spare == 2);

	/* The directory. */
	int resizing = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	HOLDS(has_seals(files[DIRECTORY], resizing | F_SEAL_FUTURE_WRITE));
	uint64_t length = length_of(files[DIRECTORY]);
	HOLDS(mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, files[DIRECTORY], 0) == MAP_FAILED);
	char *directory = mmap(NULL, length, PROT_READ, MAP_SHARED, files[DIRECTORY], 0);
	HOLDS(directory != MAP_FAILED);
	char header[128], zeros[72] = {0};
	memcpy(header, directory, sizeof header);
	uint32_t buffers = u32(header + 16), stride = u32(header + 20), headroom = u32(header + 24);
	uint64_t size = u64(header + 32), metadata_at = u64(header + 40), buffers_at = u64(header + 48);
	HOLDS(!memcmp(header, "LRDIRECT", 8) && u32(header + 8) == 1 && u32(header + 12) == 128);
	HOLDS(buffers >= 1 && buffers <= 1u << 28 && length == 128 + 8 * (uint64_t)buffers);
	HOLDS(stride % 64 == 0 && stride >= 64 && stride <= 65472 && headroom < stride && u32(header + 28) == 63);
	HOLDS(size % 4096 == 0 && size <= 1ull << 46 && size == length_of(files[PACKETS]));
	HOLDS(metadata_at % 64 == 0 && metadata_at + 64 * (uint64_t)buffers <= buffers_at);
	HOLDS(buffers_at % 4096 == 0 && buffers_at + (uint64_t)stride * buffers <= size);
	HOLDS(!memcmp(header + 56, zeros, sizeof zeros));
	const _Atomic uint64_t *ledger = (const _Atomic uint64_t *)(directory + 128);

	/* The packets, to which the server may add the seal against writing. */
	HOLDS(has_seals(files[PACKETS], F_SEAL_SHRINK | F_SEAL_GROW));
	char *packets = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, files[PACKETS], 0);
	HOLDS(packets != MAP_FAILED);

	/* The channel. */
	HOLDS(has_seals(files[CHANNEL], resizing));
	length = length_of(files[CHANNEL]);
	char *channel = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, files[CHANNEL], 0);
	HOLDS(channel != MAP_FAILED);
	HOLDS(!memcmp(channel, "LRCHANNL", 8) && u32(channel + 8) == 1 && u32(channel + 20) == 1);
	uint32_t member = u32(channel + 12), cells = u32(channel + 16);
	HOLDS(member >= 1 && member <= 63 && cells && !(cells & (cells - 1)) && cells <= 65536);
	HOLDS(!memcmp(channel + 24, zeros, 40));
	uint64_t ring_bytes = (192 + 8 * (uint64_t)cells + 63) / 64 * 64;
	HOLDS(length == 64 + 2 * ring_bytes);
	struct ring from_server = ring_at(channel + 64, cells), to_server = ring_at(channel + 64 + ring_bytes, cells);
	uint64_t mine = 1ull << member;

	/* The figures. */
	HOLDS(has_seals(files[FIGURES], resizing | F_SEAL_FUTURE_WRITE));
	length = length_of(files[FIGURES]);
	HOLDS(length >= 8 * (2024 + 80 * 63));
	const _Atomic uint64_t *figures = mmap(NULL, length, PROT_READ, MAP_SHARED, files[FIGURES], 0);
	HOLDS(figures != MAP_FAILED);
	HOLDS(!memcmp((const char *)figures, "LRFIGURE", 8) && figures[1] == 1 && figures[3] == buffers);
	const _Atomic uint64_t *of_mine = figures + 8 + 32 * line;
	HOLDS(!strcmp((const char *)of_mine, argv[2]));
	of_mine += 8;
	HOLDS(of_mine[0] == 1 && of_mine[1] == (uint64_t)getpid() && of_mine[2] == 1 && of_mine[3] == cells);

	/* What comes: empty buffers, and three packets. */
	uint64_t word, empty[2], packet[3];
	uint32_t empties = 0, count = 0;
	while (count < 3 || empties < spare) {
		HOLDS(take(&from_server, files[DOORBELL], &word));
		uint32_t buffer = word & 0x1fffffff, offset = word >> 32 & 0xffff, bytes = word >> 48 & 0xffff;
		HOLDS(buffer < buffers && offset + bytes <= stride && !(word & (1u << 29 | KEPT)));
		HOLDS(ledger[buffer] == mine);
		if (word & EMPTY) {
			HOLDS(empties < 2);
			empty[empties++] = word;
			continue;
		}
		HOLDS(count < 3 && bytes == 60);
		const char *start = packets + buffers_at + (uint64_t)stride * buffer + offset;
		const char *metadata = packets + metadata_at + 64 * (uint64_t)buffer;
		HOLDS(start[0] == (char)count && start[1] == 17 && start[59] == 17);
		/* When it was received, flow hash, port, queue, VLAN, paint, kind, headers, destination, annotations. */
		HOLDS(u64(metadata) == 12345678901234 && u32(metadata + 8) == 0x01020304);
		HOLDS(!memcmp(metadata + 12, (uint16_t[]){5, 6, 7}, 6));
		HOLDS(metadata[18] == 8 && metadata[19] == 3);
		HOLDS(!memcmp(metadata + 20, (uint16_t[]){(uint16_t)(offset + 14), 0xffff}, 4));
		HOLDS(metadata[24] == 10 && metadata[39] == 11 && metadata[40] == 12 && metadata[63] == 13);
		packet[count++] = word;
	}

	/* The first is returned; the second, changed and without its first two bytes, is sent; the third is sent and
	 * kept; and one is made in an empty buffer. */
	put(&to_server, (packet[0] & 0x1fffffff) | EMPTY);
	uint64_t second = packet[1] & 0x1fffffff, at = (packet[1] >> 32 & 0xffff) + 2;
	packets[buffers_at + stride * second + at] = 77;
	put(&to_server, second | at << 32 | 58ull << 48);
	put(&to_server, packet[2] | KEPT);
	uint64_t own = empty[0] & 0x1fffffff;
	memcpy(packets + buffers_at + stride * own + headroom, "made here", 9);
	put(&to_server, own | (uint64_t)headroom << 32 | 9ull << 48);
	publish(&to_server, files[DOORBELL]);
	/* For three packets that it has sent the server lends as many buffers as at first, two, once it has taken them. */
	HOLDS(take(&from_server, files[DOORBELL], &word) && word & EMPTY);
	HOLDS(take(&from_server, files[DOORBELL], &word) && word & EMPTY);
	HOLDS(*to_server.head == to_server.position && *from_server.tail == from_server.position);
	uint64_t third = packet[2] & 0x1fffffff;
	HOLDS(ledger[third] == mine && ledger[second] != mine && ledger[own] != mine);
	/* Words that name what this consumer does not hold are counted, and no harm. */
	put(&to_server, (uint64_t)buffers | EMPTY);
	put(&to_server, second | EMPTY);
	put(&to_server, third | EMPTY);
	publish(&to_server, files[DOORBELL]);
	struct pollfd waited = {socket_, POLLIN, 0};
	for (int patience = 0; of_mine[14] != 2 || of_mine[11] != 3; patience++)
		HOLDS(patience < 10000 && poll(&waited, 1, 1) == 0);
	HOLDS(of_mine[7] == 3 && of_mine[8] == 180 && of_mine[12] == 58 + 60 + 9);
	HOLDS(ledger[third] == 0);

	/* A message behind the first is the end of it: it is refused, and this is no consumer any more. */
	memset(message, 0, sizeof message);
	HOLDS(ask(socket_, message, files) == 0 && u32(message + 8) == 20 && u32(message + 12) == 5);
	HOLDS(message[24] && memchr(message + 24, 0, 256));
	HOLDS(recv(socket_, message, sizeof message, 0) == 512 && u32(message + 8) == 21 && u32(message + 12) == 5);
	printf("done\n");
	return 0;
}
