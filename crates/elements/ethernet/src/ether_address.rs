//! `GetEtherAddress`, `SetEtherAddress`, `StoreEtherAddress`: Ethernet addresses
//! between packets and their annotations.

use linerate_graph::{
    Arg, Class, Context, Element, Handler, HandlerError, Make, Word, parse_integer,
};
use linerate_memory::{Frame, PacketMut};
use linerate_packet::MacAddr;

use super::{FAMILY, written_mac};
use linerate_kit::{
    annotation_byte::Bytes,
    ether::mac_text,
    ip::{NO_BUFFER, Refused, Verdict},
};

/// Drop reason, behind that of [`Refused`] itself.
const SHORT: usize = 1;
const DROPS: &[&str] = &["no buffer", "too short"];

const ANNO: Arg = Arg::required("ANNO", "annotation", "the annotation, of six bytes");
const OFFSET: Arg = Arg::required("OFFSET", "bytes, src or dst", "where the address is");

pub(super) const GET: Class = Class {
    name: "GetEtherAddress",
    family: FAMILY,
    summary: "copies an Ethernet address of packets to an annotation",
    description: "From `OFFSET`, where `src` stands for 6 and `dst` for 0. Packets that end before \
        that leave by output 1, or are dropped where there is none.",
    ports: "1/1-2",
    args: &[ANNO, OFFSET],
    annotates: true,
    drops: DROPS,
    cost: "One pass: the line of the address and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> GetEtherAddress(0, src) -> Discard;",
    make: |make| {
        let annotation = Bytes::<ADDRESS>::given(make, "ANNO").unwrap_or_default();
        let (offset, refused) = (offset(make), Refused::dropped_for(make, SHORT));
        Box::new(GetEtherAddress { annotation, offset, refused })
    },
    ..Class::EMPTY
};

pub(super) const SET: Class = Class {
    name: "SetEtherAddress",
    family: FAMILY,
    summary: "sets an annotation to an Ethernet address",
    description: "To the same for every packet. StoreEtherAddress writes it into packets.",
    ports: "1/1",
    args: &[Arg::required("ADDR", "Ethernet address", "the address"), ANNO],
    handlers: &[Handler::value("addr", "the address")],
    annotates: true,
    drops: &["no buffer"],
    cost: "Writes a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetEtherAddress(1:2:3:4:5:6, 0) -> Discard;",
    make: |make| {
        let address = make.need("ADDR");
        let annotation = Bytes::<ADDRESS>::given(make, "ANNO").unwrap_or_default();
        Box::new(SetEtherAddress { address, annotation })
    },
    ..Class::EMPTY
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
    args: &[
        Arg::optional("ADDR", "Ethernet address", "", "the address"),
        OFFSET,
        Arg::keyword("ANNO", "annotation", "", "where to take the address from instead"),
    ],
    handlers: &[Handler::value("addr", "the address")],
    annotates: true,
    drops: DROPS,
    cost: "One pass: the line of the address, and one of annotations where it comes from there.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StoreEtherAddress(1:2:3:4:5:6, src) -> Discard;",
    make: |make| Box::new(StoreEtherAddress::new(make)),
    ..Class::EMPTY
};

/// Bytes of an address.
const ADDRESS: usize = 6;

/// The argument `OFFSET`.
fn offset(make: &mut Make<'_>) -> usize {
    let Some(Word(word)) = make.get("OFFSET") else { return 0 };
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

struct GetEtherAddress {
    annotation: Bytes<ADDRESS>,
    offset: usize,
    refused: Refused,
}

impl Element for GetEtherAddress {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let GetEtherAddress { annotation, offset, ref mut refused } = *self;
        refused.sift_all(cx, frame, |bytes, meta| {
            match bytes.get(offset..).and_then(|rest| rest.first_chunk()) {
                Some(address) => annotation.set(meta, *address),
                None => return Verdict::Refuse,
            }
            Verdict::Keep
        });
    }
}

struct SetEtherAddress {
    address: MacAddr,
    annotation: Bytes<ADDRESS>,
}

impl Element for SetEtherAddress {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let SetEtherAddress { address, annotation } = *self;
        let set = |packet: &mut PacketMut<'_>| annotation.set(packet.parts().1, address.0);
        cx.pool.arena().edit_packets(frame, set);
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(mac_text(self.address))
    }

    fn write(&mut self, cx: &mut Context, _: &str, value: &str) -> Result<String, HandlerError> {
        self.address = written_mac(cx, value)?;
        Ok(String::new())
    }
}

struct StoreEtherAddress {
    address: MacAddr,
    /// Where it is taken from instead.
    annotation: Option<Bytes<ADDRESS>>,
    offset: usize,
    refused: Refused,
}

impl StoreEtherAddress {
    fn new(make: &mut Make<'_>) -> StoreEtherAddress {
        let address = make.get("ADDR");
        let annotation = Bytes::<ADDRESS>::given(make, "ANNO");
        if make.is_given("ADDR") == make.is_given("ANNO") {
            make.error("must specify exactly one of ADDR/ANNO");
        }
        StoreEtherAddress {
            address: address.unwrap_or_default(),
            annotation,
            offset: offset(make),
            refused: Refused::dropped_for(make, SHORT),
        }
    }
}

impl Element for StoreEtherAddress {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let StoreEtherAddress { address, annotation, offset, ref mut refused } = *self;
        refused.sift_all(cx, frame, |bytes, meta| {
            match bytes.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()) {
                Some(place) => *place = annotation.map_or(address.0, |from| from.get(meta)),
                None => return Verdict::Refuse,
            }
            Verdict::Keep
        });
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(mac_text(self.address))
    }

    fn write(&mut self, cx: &mut Context, _: &str, value: &str) -> Result<String, HandlerError> {
        self.address = written_mac(cx, value)?;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    const PACKETS: &str = "010203040506070809101112aaaa 111213141516171819202122bb 3132333435";

    /// Packets that come out behind `path`, and what leaves by output 1 of `e`.
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
