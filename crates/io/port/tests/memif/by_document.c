/* A memif client that has nothing but docs/memif.md: it connects, gives the server a region with a ring each way,
 * sends a packet, one in two pieces and one that makes no sense, and waits for two by the interrupt. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HOLDS(what)                                                             \
	do {                                                                    \
		if (!(what)) {                                                  \
			printf("line %d: %s does not hold\n", __LINE__, #what); \
			return 1;                                               \
		}                                                               \
	} while (0)

enum { ACK = 1, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT };
enum { LOG2 = 3, SLOTS = 1 << LOG2, RING = 128 + 16 * SLOTS, BUFFERS = 4096, BUFFER = 256, REGION = 16384 };

static int socket_;
static char message[128];
static char *region;

static void field(int at, uint64_t value, int bytes)
{
	memcpy(message + at, &value, (size_t)bytes);
}

static unsigned number(const char *at)
{
	uint16_t value;
	memcpy(&value, at, 2);
	return value;
}

/* Says a message, with a descriptor or -1, and returns the type of the answer. */
static int say(int type, int descriptor)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec bytes = {message, sizeof message};
	struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};
	field(0, (uint64_t)type, 2);
	if (descriptor >= 0) {
		header.msg_control = control;
		header.msg_controllen = sizeof control;
		struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
	}
	if (sendmsg(socket_, &header, MSG_NOSIGNAL) != sizeof message)
		return -1;
	if (recv(socket_, message, sizeof message, 0) != sizeof message)
		return -2;
	int answer = (int)number(message);
	if (answer == ACK)
		memset(message, 0, sizeof message);
	return answer;
}

static _Atomic uint16_t *count_of(char *ring, int at)
{
	return (_Atomic uint16_t *)(ring + at);
}

static void describe(char *ring, unsigned n, uint16_t flags, uint32_t length, uint32_t offset)
{
	char *descriptor = ring + 128 + 16 * (n % SLOTS);
	memset(descriptor, 0, 16);
	memcpy(descriptor, &flags, 2);
	memcpy(descriptor + 4, &length, 4);
	memcpy(descriptor + 8, &offset, 4);
}

int main(int argc, char **argv)
{
	HOLDS(argc == 2 && argv[1][0] == '@');
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t name = strlen(argv[1]);
	memcpy(address.sun_path, argv[1], name);
	address.sun_path[0] = 0;
	socket_ = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name);
	HOLDS(connect(socket_, (struct sockaddr *)&address, length) == 0);

	/* What the server says first. */
	HOLDS(recv(socket_, message, sizeof message, 0) == sizeof message && number(message) == HELLO);
	HOLDS(!strncmp(message + 2, "Linerate ", 9));
	HOLDS(number(message + 34) <= 0x0200 && number(message + 36) >= 0x0200 && message[44] >= LOG2);

	/* A region: both rings, and a buffer for each of their slots. */
	int file = memfd_create("region", MFD_ALLOW_SEALING);
	HOLDS(ftruncate(file, REGION) == 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	HOLDS(region != MAP_FAILED);
	char *to_server = region, *to_client = region + RING;
	const uint32_t cookie = 0x03E31F20;
	memcpy(to_server, &cookie, 4);
	memcpy(to_client, &cookie, 4);
	int kick = eventfd(0, EFD_NONBLOCK), interrupt = eventfd(0, EFD_NONBLOCK);

	memset(message, 0, sizeof message);
	field(2, 0x0200, 2);
	field(4, 7, 4);
	strcpy(message + 9, "psst");
	strcpy(message + 33, "by the document");
	HOLDS(say(INIT, -1) == ACK);
	field(4, REGION, 8);
	HOLDS(say(ADD_REGION, file) == ACK);
	field(2, 1, 2);
	field(12, LOG2, 1);
	HOLDS(say(ADD_RING, kick) == ACK);
	field(8, RING, 4);
	field(12, LOG2, 1);
	HOLDS(say(ADD_RING, interrupt) == ACK);
	strcpy(message + 2, "ring");
	HOLDS(say(CONNECT, -1) == CONNECTED);

	/* Free buffers for packets to us: all slots. The flags of that ring are zero: we want the interrupt. */
	for (unsigned n = 0; n < SLOTS; n++)
		describe(to_client, n, 0, BUFFER, BUFFERS + (SLOTS + n) * BUFFER);
	atomic_store_explicit(count_of(to_client, 6), SLOTS, memory_order_release);

	/* A packet, one in two pieces, one behind the end of the region, and one more. */
	char *buffers = region + BUFFERS;
	memset(buffers, 1, 60);
	describe(to_server, 0, 0, 60, BUFFERS);
	memset(buffers + BUFFER, 2, BUFFER);
	memset(buffers + 2 * BUFFER, 3, 44);
	describe(to_server, 1, 1, BUFFER, BUFFERS + BUFFER);
	describe(to_server, 2, 0, 44, BUFFERS + 2 * BUFFER);
	describe(to_server, 3, 0, 60, REGION - 59);
	memset(buffers + 4 * BUFFER, 4, 14);
	describe(to_server, 4, 0, 14, BUFFERS + 4 * BUFFER);
	atomic_store_explicit(count_of(to_server, 6), 5, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	const uint64_t one = 1;
	if (!(atomic_load(count_of(to_server, 4)) & 1))
		HOLDS(write(kick, &one, 8) == 8);

	/* The two that the server answers with; the second is longer than a buffer. */
	while (atomic_load_explicit(count_of(to_client, 64), memory_order_acquire) != 3) {
		struct pollfd waited = {interrupt, POLLIN, 0};
		uint64_t times;
		HOLDS(poll(&waited, 1, 10000) == 1 && read(interrupt, &times, 8) == 8);
	}
	HOLDS(number(to_client + 128) == 0 && number(to_client + 144) == 1 && number(to_client + 160) == 0);
	const unsigned lengths[] = {61, BUFFER, 300 - BUFFER};
	for (unsigned n = 0; n < 3; n++) {
		const char *packet = buffers + (SLOTS + n) * BUFFER;
		HOLDS(number(to_client + 128 + 16 * n + 4) == lengths[n]);
		HOLDS(packet[0] == (n ? 6 : 5) && packet[lengths[n] - 1] == packet[0]);
	}
	HOLDS(atomic_load(count_of(to_server, 64)) == 5);

	memset(message, 0, sizeof message);
	strcpy(message + 6, "done");
	field(0, DISCONNECT, 2);
	HOLDS(send(socket_, message, sizeof message, MSG_NOSIGNAL) == sizeof message);
	printf("done\n");
	return 0;
}
