/* Counts packets by IP protocol until its server ends:
 *   cc count.c $(pkg-config --cflags --libs linerate-client) && ./a.out SOCKET NAME */
#include <linerate_client.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	uint64_t counts[256] = {0};
	lr_packet packets[LR_BURST];
	lr_figures figures;
	char error[200];
	int received;

	if (argc != 3)
		return 2;
	lr_consumer *consumer = lr_attach(argv[1], argv[2], error, sizeof error);
	if (!consumer) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	while (lr_wait(consumer, -1) > 0) {
		while ((received = lr_receive(consumer, packets)) > 0)
			for (int at = 0; at < received; at++)
				if (packets[at].length > 23)
					counts[packets[at].data[23]]++;
	}
	printf("%s\n", lr_error(consumer));
	for (int protocol = 0; protocol < 256; protocol++)
		if (counts[protocol])
			printf("protocol %d: %llu packets\n", protocol,
			       (unsigned long long)counts[protocol]);
	lr_read_figures(consumer, &figures);
	printf("lost: %llu\n", (unsigned long long)figures.lost_full);
	lr_detach(consumer);
	return 0;
}
