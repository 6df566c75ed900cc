//! `GetEtherAddress`, `SetEtherAddress`, `StoreEtherAddress`: Ethernet addresses
//! between packets and their annotations.

use linerate_graph::{
    Arguments, Class, DropReason, ElementBuilder, Exit, NoBuffer, Right, Step, Verdict, Word,
    Writes, parse_integer,
};
use linerate_memory::PacketMut;

use super::FAMILY;
use linerate_element_support::{annotation_byte::Bytes, ether::Mac};

/// Drop reason of those that need the bytes of an address.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// too short
    Short,
}

pub(super) const GET: Class = Class {
    name: "GetEtherAddress",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "copies an Ethernet address of packets to an annotation",
    description: "From `OFFSET`, where `src` stands for 6 and `dst` for 0. Packets that end before \
        that leave by output 1, or are dropped where there is none.",
    ports: "1/1-2",
    annotates: true,
    cost: "One pass: the line of the address and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> GetEtherAddress(0, src) -> Discard;",
    ..GetEtherAddress::CLASS
};

pub(super) const SET: Class = Class {
    name: "SetEtherAddress",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets an annotation to an Ethernet address",
    description: "To the same for every packet. StoreEtherAddress writes it into packets.",
    ports: "1/1",
    annotates: true,
    cost: "Writes a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetEtherAddress(1:2:3:4:5:6, 0) -> Discard;",
    ..SetEtherAddress::CLASS
};

pub(super) const STORE: Class = Class {
    name: "StoreEtherAddress",
    family: FAMILY,
    summary: "writes an Ethernet address into packets",
    description: "`ADDR`, or what the annotation `ANNO` has: one of them must be given. It goes to \
        `OFFSET`, where `src` stands for 6 and `dst` for 0. Packets that end before that leave by \
        output 1, or are dropped where there is none.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "One pass: the line of the address, and one of annotations where it comes from there.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StoreEtherAddress(1:2:3:4:5:6, src) -> Discard;",
    ..StoreEtherAddress::CLASS
};

/// Bytes of an address.
const ADDRESS: usize = 6;

/// The argument `OFFSET`.
fn offset(make: &mut ElementBuilder<'_>, name: &str) -> usize {
    let Some(Word(word)) = make.get(name) else { return 0 };
    let offset = match word.to_ascii_lowercase().as_str() {
        "src" => Some(6),
        "dst" => Some(0),
        number => parse_integer(number).and_then(|at| u32::try_from(at).ok()),
    };
    // The end must be a number as well.
    let fits = offset.filter(|at| at.checked_add(ADDRESS as u32).is_some());
    fits.unwrap_or_else(|| {
        make.error("type mismatch: bad OFFSET");
        0
    }) as usize
}

#[derive(Arguments)]
struct GetEtherAddress {
    /// the annotation, of six bytes
    #[arg]
    anno: Bytes<ADDRESS>,
    /// where the address is
    #[arg(kind = "bytes, src or dst", with = offset)]
    offset: usize,
}

impl Step<Writes, Reason> for GetEtherAddress {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let (bytes, meta) = packet.parts();
        let address = bytes.get(self.offset..).and_then(|rest| rest.first_chunk());
        self.anno.set(meta, *address.ok_or(Exit::ErrorOutput(Reason::Short))?);
        Ok(())
    }
}

#[derive(Arguments)]
struct SetEtherAddress {
    /// the address
    #[arg]
    #[handler(value)]
    addr: Mac,
    /// the annotation, of six bytes
    #[arg]
    anno: Bytes<ADDRESS>,
}

impl Step for SetEtherAddress {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        self.anno.set(packet.meta_mut(), self.addr.0.0);
        Ok(())
    }
}

#[derive(Arguments)]
#[arguments(check = StoreEtherAddress::check)]
struct StoreEtherAddress {
    /// the address
    #[arg(optional, default = Mac::default(), shown = "")]
    #[handler(value)]
    addr: Mac,
    /// where the address is
    #[arg(kind = "bytes, src or dst", with = offset)]
    offset: usize,
    /// where to take the address from instead
    #[arg(keyword, shown = "")]
    anno: Option<Bytes<ADDRESS>>,
}

impl StoreEtherAddress {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if make.is_given("ADDR") == make.is_given("ANNO") {
            make.error("must specify exactly one of ADDR/ANNO");
        }
    }
}

impl Step<Writes, Reason> for StoreEtherAddress {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let (bytes, meta) = packet.parts();
        let place = bytes.get_mut(self.offset..).and_then(|rest| rest.first_chunk_mut());
        *place.ok_or(Exit::ErrorOutput(Reason::Short))? =
            self.anno.map_or(self.addr.0.0, |anno| anno.get(meta));
        Ok(())
    }
}
#[cfg(test)]
mod tests {
    use crate::testing::Run;

    const PACKETS: &str = "010203040506070809101112aaaa 111213141516171819202122bb 3132333435";

    /// Packets that come out behind `path`, and those that leave by output 1 of `e`.
    fn packets(path: &str, frame_limit: usize) -> (String, String) {
        let mut run = Run::new(&format!(
            "Packets({PACKETS}) -> {path} -> c :: Collect; e [1] -> d :: Collect;"
        ))
        .frame_limit(frame_limit);
        run.run();
        (run.read("c.packets"), run.read("d.packets"))
    }

    #[test]
    fn addresses_go_where_they_are_to() {
        for frame_limit in [1, 7, 256] {
            for (path, first, second) in [
                (
                    "e :: StoreEtherAddress(a:b:c:d:e:f, src)",
                    "0102030405060a0b0c0d0e0faaaa",
                    "1112131415160a0b0c0d0e0fbb",
                ),
                (
                    "e :: StoreEtherAddress(a:b:c:d:e:f, 1)",
                    "010a0b0c0d0e0f0809101112aaaa",
                    "110a0b0c0d0e0f1819202122bb",
                ),
                (
                    "e :: GetEtherAddress(34, src) -> StoreEtherAddress(OFFSET dst, ANNO 34)",
                    "070809101112070809101112aaaa",
                    "171819202122171819202122bb",
                ),
                (
                    "SetEtherAddress(a:b:c:d:e:f, 0) -> e :: StoreEtherAddress(OFFSET 7, ANNO 0)",
                    "010203040506070a0b0c0d0e0faa",
                    "111213141516170a0b0c0d0e0f",
                ),
            ] {
                let expected = (format!("{first}\n{second}"), "3132333435".into());
                assert_eq!(packets(path, frame_limit), expected, "{path}");
            }
        }
    }

    /// Each has a copy of its own.
    #[test]
    fn copies_are_not_changed() {
        let mut run = Run::new(&format!(
            "Packets({PACKETS}) -> t :: Tee -> e :: StoreEtherAddress(a:b:c:d:e:f, dst)
                -> c :: Collect; t [1] -> d :: Collect;"
        ));
        run.run();
        assert_eq!(run.read("d.packets"), PACKETS.replace(' ', "\n"));
        assert_eq!(run.read("c.packets").lines().count(), 2);
        assert!(run.read("e.drops").ends_with("1\ttoo short\n"));
    }
}
