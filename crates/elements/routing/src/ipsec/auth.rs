//! `IPsecAuthHMACSHA1` and `IPsecAuthSHA1`: the digest behind packets.

use hmac::Mac as _;
use linerate_element_support::log_once::LogOnce;
use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Reads, Verdict, Writes,
};
use linerate_memory::Frame;
use sha1::{Digest as _, Sha1};

use super::{
    DIGEST, FAMILY,
    association::{Association, AssociationCache},
    esp,
};

/// Reasons for which packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no security association
    NoAssociation,
    /// too short
    Short,
    /// longer than a buffer
    TooLong,
    /// wrong digest
    Wrong,
}

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
    drops: Reason::REASONS,
    cost: "The packet, some 3 cycles per byte where the processor has instructions for SHA-1.",
    example: esp::EXAMPLE,
    make: |make| Box::new(Auth::new(make, DigestKind::Hmac)),
    ..Class::here()
};

pub(super) const PLAIN: Class = Class {
    name: "IPsecAuthSHA1",
    description: "The first 12 bytes of SHA-1 over the packet, without a key: it shows damage, not \
        forgery. Packets whose digest is wrong leave by output 1, or are dropped where there is \
        none; the first is reported.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) \
        -> Discard;",
    make: |make| Box::new(Auth::new(make, DigestKind::Plain)),
    ..HMAC
};

#[derive(Debug, Clone, Copy)]
enum DigestKind {
    Hmac,
    Plain,
}

struct Auth {
    kind: DigestKind,
    verifies: bool,
    drops: u64,
    said: LogOnce,
    known: AssociationCache,
}

impl Auth {
    fn new(make: &mut ElementBuilder<'_>, kind: DigestKind) -> Auth {
        let verifies = make.need::<i32>("VERIFY") != 0;
        Auth {
            kind,
            verifies,
            drops: 0,
            said: LogOnce::for_element(make),
            known: AssociationCache::new(make),
        }
    }
}

impl DigestKind {
    fn digest(self, by: Option<&Association>, bytes: &[u8]) -> Result<[u8; DIGEST], Exit<Reason>> {
        let whole: [u8; 20] = match self {
            DigestKind::Plain => Sha1::digest(bytes).into(),
            DigestKind::Hmac => {
                let mut mac = by.ok_or(Exit::Drop(Reason::NoAssociation))?.hmac.clone();
                mac.update(bytes);
                mac.finalize().into_bytes().into()
            }
        };
        whole.first_chunk().copied().ok_or(Exit::Drop(Reason::Short))
    }

    /// Whether a digest is right, in a time that does not tell where it is not.
    fn check(self, by: Option<&Association>, bytes: &[u8], digest: &[u8]) -> Verdict<Reason> {
        let right = self.digest(by, bytes)?;
        let differs = right.iter().zip(digest).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs == 0 { Ok(()) } else { Err(Exit::ErrorOutput(Reason::Wrong)) }
    }
}

impl Element for Auth {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Auth { kind, verifies, ref mut known, .. } = *self;
        let mut wrong = 0;
        if verifies {
            cx.retain::<Reads, Reason>(frame, |packet| {
                let by = known.for_packet(packet.meta());
                let (bytes, digest) =
                    packet.bytes().split_last_chunk::<DIGEST>().ok_or(Exit::Drop(Reason::Short))?;
                kind.check(by, bytes, digest).inspect_err(|exit| {
                    wrong += u64::from(*exit == Exit::ErrorOutput(Reason::Wrong));
                })?;
                packet.truncate(packet.len() - DIGEST);
                Ok(())
            });
        } else {
            cx.retain::<Writes, Reason>(frame, |packet| {
                let digest = kind.digest(known.for_packet(packet.meta()), packet.bytes())?;
                if !packet.append(DIGEST) {
                    return Err(Exit::Drop(Reason::TooLong));
                }
                if let Some(end) = packet.bytes_mut().last_chunk_mut() {
                    *end = digest;
                }
                Ok(())
            });
        }
        if wrong > 0 && self.drops == 0 && self.said.first() {
            cx.console().report("Invalid SHA1 authentication digest\n");
        }
        self.drops += wrong;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}
