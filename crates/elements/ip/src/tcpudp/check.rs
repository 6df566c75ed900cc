//! What `CheckTCPHeader`, `CheckUDPHeader` and `CheckICMPHeader` have in common:
//! all but what a sound header is.

use std::marker::PhantomData;

use linerate_graph::{Arguments, Context, Element, Exit, Handler, HandlerError, Reads, Step, Way};
use linerate_memory::{Frame, Packet};

use linerate_kit::ip::ip;

/// The handler that `DETAILS` adds.
const DETAILS: Handler = Handler::count("drop_details", "packets that were not sound, by reason");

/// What is wrong with a packet: also the drop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Protocol,
    Length,
    Checksum,
}

/// A check of a protocol's header.
pub(crate) trait Check: Send + 'static {
    /// The protocol's name.
    const PROTOCOL: &'static str;
    /// Whether the element says who it is.
    const NAMES_ITSELF: bool = true;
    /// Drop reasons and what is said of them.
    const REASONS: [&'static str; 3];

    /// Looks at a packet from its IP header on; what follows the IP packet is
    /// still there.
    fn check(ip: &[u8]) -> Result<(), Wrong>;
}

#[derive(Arguments)]
#[arguments(handlers = [Handler::count("drops", "packets that were not sound")])]
pub(crate) struct CheckHeader<C> {
    /// reports every bad packet
    #[arg(keyword, default = false)]
    verbose: bool,
    /// whether there is a handler drop_details
    #[arg(keyword, default = false)]
    details: bool,
    counts: [u64; 3],
    /// What was wrong with packets of the frame.
    failed: Vec<Wrong>,
    check: PhantomData<fn(C)>,
}

impl<C: Check> Step<Reads> for CheckHeader<C> {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Way {
        let found = ip(packet.bytes(), packet.meta()).ok_or(Wrong::Protocol);
        found.and_then(C::check).map_err(|wrong| {
            self.failed.push(wrong);
            Exit::Refuse(wrong as usize)
        })
    }

    fn end(&mut self, cx: &mut Context) {
        let mut text = String::new();
        for wrong in self.failed.drain(..) {
            if self.verbose || self.counts == [0; 3] {
                if C::NAMES_ITSELF {
                    let class = cx.plan().elements[cx.element()].class.name;
                    text += &format!("{} :: {class}: ", cx.name());
                }
                let reason = C::REASONS[wrong as usize];
                text += &format!("{} header check failed: {reason}\n", C::PROTOCOL);
            }
            self.counts[wrong as usize] += 1;
        }
        cx.console().report(&text);
    }
}

impl<C: Check> Element for CheckHeader<C> {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.counts.iter().sum::<u64>().to_string()),
            "drop_details" if self.details => {
                let lines = self.counts.iter().zip(C::REASONS);
                Ok(lines.map(|(count, reason)| format!("{count}\t{reason}\n")).collect())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        (self.details && name == DETAILS.name).then_some(&DETAILS)
    }

    fn handler_names(&self) -> Vec<String> {
        self.details.then(|| DETAILS.name.to_owned()).into_iter().collect()
    }
}
