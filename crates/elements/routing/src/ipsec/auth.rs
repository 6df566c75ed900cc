//! `IPsecAuthHMACSHA1` and `IPsecAuthSHA1`: the digest behind packets.

use hmac::Mac as _;
use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, HandlerResult, Make};
use linerate_memory::Frame;
use sha1::{Digest as _, Sha1};

use super::{
    DIGEST, FAMILY, NO_ASSOCIATION, NO_BUFFER, SHORT,
    association::{Association, Known},
    esp, sift,
};
use linerate_kit::room;

/// Drop reasons behind the common ones.
const TOO_LONG: usize = 3;
const WRONG: usize = 4;

pub(super) const HMAC: Class = Class {
    name: "IPsecAuthHMACSHA1",
    family: FAMILY,
    summary: "puts a digest behind packets of a tunnel, or checks it and takes it off",
    description: "The first 12 bytes of HMAC-SHA1 over the packet (RFC 2404), with the tunnel's \
        second key. Packets whose digest is wrong leave by output 1, or are dropped where there is \
        none; the first is reported.",
    ports: "1/-",
    args: &[Arg::required("VERIFY", "1 or 0", "whether to check; 0: to put it there")],
    handlers: &[Handler::count("drops", "packets whose digest was wrong")],
    annotates: true,
    drops: &[
        "no buffer",
        "no security association",
        "too short",
        "longer than a buffer",
        "wrong digest",
    ],
    cost: "The packet, some 3 cycles per byte where the processor has instructions for SHA-1.",
    example: esp::EXAMPLE,
    make: |make| Box::new(Auth::new(make, Kind::Hmac)),
    ..Class::here()
};

pub(super) const PLAIN: Class = Class {
    name: "IPsecAuthSHA1",
    description: "The first 12 bytes of SHA-1 over the packet, without a key: it shows damage, not \
        forgery. Packets whose digest is wrong leave by output 1, or are dropped where there is \
        none; the first is reported.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) \
        -> Discard;",
    make: |make| Box::new(Auth::new(make, Kind::Plain)),
    ..HMAC
};

#[derive(Debug, Clone, Copy)]
enum Kind {
    Hmac,
    Plain,
}

struct Auth {
    kind: Kind,
    verifies: bool,
    drops: u64,
    has_other: bool,
    known: Known,
}

impl Auth {
    fn new(make: &mut Make<'_>, kind: Kind) -> Auth {
        let verifies = make.need::<i32>("VERIFY") != 0;
        let has_other = make.outputs() > 1;
        Auth { kind, verifies, drops: 0, has_other, known: Known::new(make) }
    }
}

impl Kind {
    fn digest(self, by: Option<&Association>, bytes: &[u8]) -> Result<[u8; DIGEST], usize> {
        let whole: [u8; 20] = match self {
            Kind::Plain => Sha1::digest(bytes).into(),
            Kind::Hmac => {
                let mut mac = by.ok_or(NO_ASSOCIATION)?.hmac.clone();
                mac.update(bytes);
                mac.finalize().into_bytes().into()
            }
        };
        whole.first_chunk().copied().ok_or(SHORT)
    }

    /// Whether a digest is right, in a time that does not tell where it is not.
    fn check(self, by: Option<&Association>, bytes: &[u8], digest: &[u8]) -> Result<(), usize> {
        let right = self.digest(by, bytes)?;
        let differs = right.iter().zip(digest).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs == 0 { Ok(()) } else { Err(WRONG) }
    }
}

impl Element for Auth {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.verifies {
            cx.unshare(frame, NO_BUFFER);
        }
        let arena = cx.pool.arena();
        let Auth { kind, verifies, ref mut known, .. } = *self;
        let failed = sift(frame, |slot| {
            let association = known.of(arena.meta(slot));
            if verifies {
                let bytes = arena.packet(slot);
                let (bytes, digest) = bytes.split_last_chunk::<DIGEST>().ok_or(SHORT)?;
                kind.check(association, bytes, digest)?;
                slot.truncate(slot.len() - DIGEST);
                return Ok(());
            }
            let digest = kind.digest(association, arena.packet(slot))?;
            if !room::put(arena, slot, DIGEST) {
                return Err(TOO_LONG);
            }
            let bytes = arena.packet_mut(slot);
            if let Some(end) = bytes.and_then(|bytes| bytes.last_chunk_mut()) {
                *end = digest;
            }
            Ok(())
        });
        for (slot, reason) in failed {
            if reason == WRONG {
                if self.drops == 0 {
                    cx.console().report("Invalid SHA1 authentication digest\n");
                }
                self.drops += 1;
            }
            if reason == WRONG && self.has_other {
                cx.out.emit(1, slot);
            } else {
                cx.drop_packet(slot, reason);
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}
