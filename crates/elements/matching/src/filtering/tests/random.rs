//! Random expressions and packets in which the same values come again and again.

const ADDRESSES: [&str; 6] =
    ["10.0.0.1", "10.0.0.2", "192.168.1.1", "1.2.3.4", "10.1.2.3", "128.0.0.1"];
const NETWORKS: [&str; 8] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.0.0.0/24",
    "192.168.0.0/16",
    "0.0.0.0/0",
    "1.2.3.4/32",
    "10.0.0.0 mask 255.0.255.0",
    "128.0.0.0/1",
];
const PORTS: [&str; 12] =
    ["80", "443", "22", "53", "1023", "1024", "www", "ssh", "0", "65535", "8080", "5000"];
const MACS: [&str; 3] = ["0:1:2:3:4:5", "ff:ff:ff:ff:ff:ff", "1:1:1:1:1:1"];

pub(super) struct Random(fastrand::Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.usize(..from.len())]
    }

    fn relation(&mut self) -> &'static str {
        self.pick(&["", "", "", "== ", "!= ", "> ", "< ", ">= ", "<= "])
    }

    fn sides(&mut self) -> &'static str {
        self.pick(&["", "", "", "src ", "dst ", "src and dst ", "src or dst "])
    }

    /// Bytes of a header. Masks are odd: Click shifts by 32 bits where the lowest
    /// one is missing and the value has it, and then finds all numbers greater.
    fn bytes(&mut self, headers: &[&str]) -> String {
        let header = self.pick(headers);
        let (first, length) = (self.0.usize(..4), self.0.usize(1..5));
        let position = self.0.usize(..4) * 4 + first;
        let length = length.min(4 - first);
        let mask =
            if self.0.u8(..3) == 0 { format!("& {} ", self.0.u8(..) | 1) } else { "".into() };
        let value = self.pick(&[0, 1, 2, 5, 8, 64, 69, 80, 128, 200, 255]);
        format!("{header}[{position}:{length}] {mask}{}{value}", self.relation())
    }

    fn primitive(&mut self) -> String {
        let (sides, relation) = (self.sides(), self.relation());
        match self.0.u8(..21) {
            // Behind an Ethernet address another one is expected.
            0..4 if sides.is_empty() => format!("host {}", self.pick(&ADDRESSES)),
            0..4 => format!("{sides}{}", self.pick(&ADDRESSES)),
            4..6 => format!("{sides}net {}", self.pick(&NETWORKS)),
            6..9 => {
                let protocol = self.pick(&["", "tcp ", "udp "]);
                format!("{sides}{protocol}port {relation}{}", self.pick(&PORTS))
            }
            9 => self
                .pick(&["tcp", "udp", "icmp", "tcpudp", "proto 17", "ip proto != 6", "proto > 6"])
                .into(),
            10 => format!("tcp opt {}", self.pick(&["syn", "ack", "fin", "psh", "18"])),
            11 => format!("icmp type {relation}{}", self.pick(&["0", "3", "8", "unreachable"])),
            12 => {
                let field = self.pick(&["vers", "hl", "id", "tos", "dscp", "ttl", "len"]);
                format!("ip {field} {relation}{}", self.pick(&[0, 1, 4, 5, 8, 15]))
            }
            13 => self.pick(&["ip frag", "unfrag", "ip ect", "ip ce", "ip ect 1"]).into(),
            14 => self.bytes(&["ip"]),
            15 => self.bytes(&["transp", "tcp", "udp", "icmp"]),
            16 => self.pick(&["true", "false"]).into(),
            17 => {
                let mask = self.0.u16(..) | 1;
                format!("{sides}port & {mask} {relation}{}", self.pick(&[0, 1, 5, 80, 1000]))
            }
            18 => format!("{sides}ether host {}", self.pick(&MACS)),
            19 => {
                let ports: Vec<_> = (0..self.0.usize(1..9)).map(|_| self.pick(&PORTS)).collect();
                format!("{sides}port {}", ports.join(" or "))
            }
            _ => format!("{sides}host {}{}", self.pick(&["", "== ", "!= "]), self.pick(&ADDRESSES)),
        }
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth == 0 || self.0.u8(..4) == 0 {
            return self.primitive();
        }
        let first = self.expression(depth - 1);
        match self.0.u8(..8) {
            // A word behind `ip ect`, say, would be part of it.
            0 => format!("({first}) {}", self.expression(depth - 1)),
            1..3 => first + self.pick(&[" and ", " && "]) + &self.expression(depth - 1),
            3..5 => first + self.pick(&[" or ", " || "]) + &self.expression(depth - 1),
            5 => format!("{}({first})", self.pick(&["not ", "! "])),
            6 => format!("({first})"),
            _ => {
                let (then, rest) = (self.expression(depth - 1), self.expression(depth - 1));
                format!("({first} ? {then} : {rest})")
            }
        }
    }

    /// Rules for three outputs.
    pub(super) fn rules(&mut self) -> Vec<String> {
        let (most, depth) = (self.pick(&[1, 2, 3, 6, 10]), self.0.u32(..4));
        let rule = |random: &mut Random| {
            let action = random.pick(&["allow", "deny", "1", "2", "0"]);
            format!("{action} {}", random.expression(depth))
        };
        (0..self.0.usize(1..=most)).map(|_| rule(self)).collect()
    }

    /// A rule as firewalls have them.
    pub(super) fn firewall_rule(&mut self) -> String {
        let octet = self.0.u8(..8);
        let network = match self.0.u8(..3) {
            0 => format!("10.{octet}.0.0/16"),
            1 => format!("10.0.{octet}.0/24"),
            _ => format!("10.0.0.{octet}"),
        };
        let side = self.pick(&["src", "dst"]);
        let ports = match self.0.u8(..3) {
            0 => format!("and tcp dst port {}", self.0.u8(..100)),
            1 => format!("and udp src port {}", self.0.u16(..)),
            _ => "and icmp".into(),
        };
        format!("{} {side} {network} {ports}", self.pick(&["allow", "deny", "1"]))
    }

    /// An Ethernet frame with an IPv4 packet whose transport part has so many
    /// bytes.
    pub(super) fn packet(&mut self, transport: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let macs: [[u8; 6]; 3] = [[0, 1, 2, 3, 4, 5], [0xff; 6], [1; 6]];
        bytes.extend(self.pick(&macs));
        bytes.extend(self.pick(&macs));
        bytes.extend([8, 0]);
        let words = self.pick(&[5u8, 5, 5, 6, 15]);
        let length = (usize::from(words) * 4 + transport) as u16;
        bytes.extend([0x40 | words, self.pick(&[0, 0, 1, 2, 3, 4, 32, 255])]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, self.pick(&[0, 1, 5, 64, 255])]);
        let fragment: u16 = self.pick(&[0, 0, 0, 0, 0x4000, 0x2000, 0x0001, 0x2001, 0x8000]);
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([self.pick(&[0, 1, 5, 64, 255]), self.pick(&[6, 6, 17, 17, 1, 2, 47])]);
        bytes.extend([0, 0]);
        for _ in 0..2 {
            let octet = self.0.u8(..8);
            let address: [u8; 4] = match self.0.u8(..4) {
                0 => self.pick(&ADDRESSES).parse::<std::net::Ipv4Addr>().expect("one").octets(),
                1 => [10, octet, 1, 1],
                2 => [10, 0, octet, self.0.u8(..4)],
                _ => [10, 0, 0, octet],
            };
            bytes.extend(address);
        }
        bytes.resize(14 + usize::from(words) * 4, 1);
        let from = bytes.len();
        let ports: [u16; 9] = [80, 443, 22, 53, 1023, 1024, 0, 65535, 5000];
        for _ in 0..2 {
            let port = if self.0.bool() { self.pick(&ports) } else { self.0.u16(..110) };
            bytes.extend(port.to_be_bytes());
        }
        bytes.resize(from + transport.max(4), 0);
        for byte in &mut bytes[from + 4..] {
            *byte = self.pick(&[0, 0, 1, 2, 5, 8, 16, 18, 80, 200, 255]);
        }
        if self.0.u8(..4) == 0 {
            bytes[from] = self.pick(&[0, 3, 8]);
        }
        bytes.truncate(from + transport);
        bytes
    }

    /// Likewise with few bytes behind the IP header, or none.
    pub(super) fn short_packet(&mut self) -> Vec<u8> {
        let transport = self.pick(&[0, 1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 20, 30]);
        self.packet(transport)
    }
}
