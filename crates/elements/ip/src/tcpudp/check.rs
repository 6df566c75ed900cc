//! Shared parts of `CheckTCPHeader`, `CheckUDPHeader` and `CheckICMPHeader`: all but the check of
//! the header.

use std::marker::PhantomData;

use linerate_graph::{
    Arguments, Context, DropReason, Element, Handler, HandlerResult, Reads, Step, Verdict,
};
use linerate_memory::{Frame, Packet};

use linerate_element_support::{
    check_failures::CheckFailures,
    ip::{LEAST, NoHeader},
};

/// A check of a protocol's header.
pub(crate) trait Check: Send + 'static {
    /// The protocol's name.
    const PROTOCOL: &'static str;
    /// Whether messages have the element's name.
    const NAMES_ITSELF: bool = true;
    /// Fault of a packet: also the drop reason. Three of them.
    type Fault: DropReason + From<NoHeader>;

    /// Checks a packet from its IP header on; bytes behind the IP packet are still there.
    fn check(ip: &[u8]) -> Result<(), Self::Fault>;
}

#[derive(Arguments)]
pub(crate) struct CheckHeader<C> {
    #[group]
    unsound: CheckFailures<3>,
    check: PhantomData<fn(C)>,
}

impl<C: Check> Step<Reads, C::Fault> for CheckHeader<C> {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<C::Fault> {
        let ip = packet.bytes().get(packet.network()..).filter(|ip| ip.len() >= LEAST);
        let found = ip.ok_or_else(|| NoHeader.into());
        found.and_then(C::check).map_err(|wrong| self.unsound.refuse(wrong))
    }

    fn end(&mut self, cx: &mut Context) {
        self.unsound.report(cx, || {
            let mut line = String::new();
            if C::NAMES_ITSELF {
                let class = cx.plan().elements[cx.element()].class.name;
                line = format!("{} :: {class}: ", cx.name());
            }
            format!("{line}{} header check failed", C::PROTOCOL)
        });
    }
}

impl<C: Check> Element for CheckHeader<C> {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.unsound.read(cx, handler)
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        self.unsound.handler(name)
    }

    fn handler_names(&self) -> Vec<String> {
        self.unsound.handler_names()
    }
}
