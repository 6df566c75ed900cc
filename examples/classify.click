// Ethernet frames by what they carry, counted kind by kind.
//
//   linerate run examples/classify.click
//
// Three sources make three kinds of frames: IPv4, ARP, and something else. A
// pattern is OFFSET/BYTES in hexadecimal; `-` takes what no other has taken.
// The packets of each output: `linerate call classify ip.count`, if it was started
// with --control.

kinds :: Classifier(12/0800, 12/0806, -);

InfiniteSource(DATA \<02 00 00 00 00 02  02 00 00 00 00 01  08 00  45>, LENGTH 60) -> kinds;
InfiniteSource(DATA \<ff ff ff ff ff ff  02 00 00 00 00 01  08 06  00>, LENGTH 60) -> kinds;
InfiniteSource(DATA \<ff ff ff ff ff ff  02 00 00 00 00 01  88 b5  00>, LENGTH 60) -> kinds;

kinds[0] -> ip :: Counter -> Discard;
kinds[1] -> arp :: Counter -> Discard;
kinds[2] -> other :: Counter -> Discard;
