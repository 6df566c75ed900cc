//! `SetIP6DSCP`: sets the class of service.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    NoBuffer, Right, Scope, Value, Writes,
};
use linerate_memory::Frame;

use super::{FAMILY, header, header::NoHeader};
use linerate_element_support::handler_values::record_argument;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
}

pub(super) const CLASS: Class = Class {
    name: "SetIP6DSCP",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets the differentiated services code point of IPv6 packets",
    description: "The upper six bits of the traffic class; the two for congestion stay. The IPv6 \
        header must be known (`CheckIP6Header`).",
    ports: "1/1",
    args: &[Arg::required("DSCP", "0 to 63", "the code point")],
    handlers: &[Handler::value("dscp", "the code point").flags(".")],
    annotates: true,
    drops: Reason::REASONS,
    cost: "One pass over the packets' headers.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIP6Header -> SetIP6DSCP(46) -> Discard;",
    make: |make| Box::new(SetIp6Dscp::new(make)),
    ..Class::here()
};

struct SetIp6Dscp {
    dscp: u8,
    /// Its text.
    text: String,
}

/// The code point, if it is one.
fn point(value: u32) -> Result<u8, String> {
    let fits = u8::try_from(value).ok().filter(|value| *value < 64);
    fits.ok_or_else(|| "diffserv code point out of range".into())
}

impl SetIp6Dscp {
    fn new(make: &mut ElementBuilder<'_>) -> SetIp6Dscp {
        let dscp = point(make.need("DSCP")).unwrap_or_else(|error| {
            make.error(error);
            0
        });
        SetIp6Dscp { dscp, text: String::new() }
    }
}

impl Element for SetIp6Dscp {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let dscp = self.dscp;
        cx.retain::<Writes, Reason>(frame, |packet| {
            let ip = header::known(packet)?;
            // Version, class and flow label are a word.
            ip[0] = ip[0] & 0xf0 | dscp >> 2;
            ip[1] = ip[1] & 0x3f | dscp << 6;
            Ok(())
        });
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "dscp" if self.text.is_empty() => {
                Ok(cx.config().trim().trim_start_matches("DSCP ").into())
            }
            "dscp" => Ok(self.text.clone()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler != "dscp" {
            return Err(HandlerError::missing(handler));
        }
        let value = value.trim();
        let scope = Scope { plan: cx.plan(), names: &cx.world().names, name: cx.name() };
        let number = u32::parse(value, &scope).map_err(|error| format!("DSCP: {error}"));
        self.dscp = number.and_then(point).map_err(HandlerError::refused)?;
        self.text = value.into();
        record_argument(cx, 0, "DSCP", value);
        Ok(String::new())
    }
}
