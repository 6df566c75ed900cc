//! `IPPrint`: shows IP packets as tcpdump did.

use std::{fs::File, io::Write as _};

use linerate_graph::{
    Arg, Class, Context, Element, Filename, Handler, HandlerError, Make, Word, parse_bool,
};
use linerate_memory::{Frame, Meta, Slot};

use super::{
    FAMILY,
    print_lines::{Line, Shown},
};
use linerate_kit::{ether::HEADER, mac_header::marked, written::boolean};

pub(super) const CLASS: Class = Class {
    name: "IPPrint",
    family: FAMILY,
    summary: "shows IP packets",
    description: "Writes a line per packet to the standard error stream, or to `OUTFILE`: the \
        label, what else was asked for, addresses, ports and what TCP, UDP and ICMP headers say, \
        like tcpdump. With `CONTENTS` the bytes of the packet follow, with `PAYLOAD` those behind \
        its headers. Packets whose IP header is not known (`CheckIPHeader`) pass without a \
        line.",
    ports: "1/1",
    args: &[
        Arg::optional("LABEL", "string", "", "begins each line"),
        Arg::keyword("CONTENTS", "HEX, ASCII or NONE", "NONE", "how to show the packet"),
        Arg::keyword("PAYLOAD", "HEX, ASCII or NO", "NO", "how to show what is behind headers"),
        Arg::keyword("MAXLENGTH", "bytes", "1500", "bytes to show; all when negative"),
        Arg::keyword("NBYTES", "bytes", "1500", "an old name of MAXLENGTH"),
        Arg::keyword("ID", "bool", "false", "shows the identification"),
        Arg::keyword("TIMESTAMP", "bool", "true", "shows the time stamp"),
        Arg::keyword("PAINT", "bool", "false", "shows the paint"),
        Arg::keyword("TOS", "bool", "false", "shows the type of service"),
        Arg::keyword("TTL", "bool", "false", "shows the time to live"),
        Arg::keyword("SWAP", "bool", "true", "shows ICMP echo numbers as they are on the wire"),
        Arg::keyword("LENGTH", "bool", "false", "shows the length of the IP packet"),
        Arg::keyword("AGGREGATE", "bool", "false", "shows the aggregate"),
        Arg::keyword("ETHER", "bool", "false", "shows the Ethernet addresses in front of IP"),
        Arg::keyword("ACTIVE", "bool", "true", "whether anything is shown"),
        Arg::keyword("OUTFILE", "path", "", "file to write to"),
        Arg::keyword("CHANNEL", "string", "", "a channel of Click's; there is one here"),
    ],
    handlers: &[Handler::value("active", "whether anything is shown")],
    annotates: true,
    prints: true,
    cost: "Formats every packet, some microseconds; the text of a frame is one write.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_proto, DATA \"1.0.0.1 5 U\") \
        -> CheckIPHeader -> IPPrint(ok) -> Discard;",
    make: |make| Box::new(IpPrint::new(make)),
    ..Class::here()
};

struct IpPrint {
    shown: Shown,
    /// Whether Ethernet addresses are; not in Click, in `FastClick`.
    ether: bool,
    active: bool,
    path: Option<Filename>,
    file: Option<File>,
    text: String,
}

/// How bytes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    None,
    Hex,
    Ascii,
}

impl IpPrint {
    fn new(make: &mut Make<'_>) -> IpPrint {
        let most = make.or("MAXLENGTH", 1500);
        let most = make.or("NBYTES", most);
        let word = |make: &mut Make<'_>, name| make.get::<Word>(name).map(|Word(text)| text);
        let contents = word(make, "CONTENTS").unwrap_or_default();
        let payload = word(make, "PAYLOAD").unwrap_or_default();
        let _ = word(make, "CHANNEL");
        let upper = contents.to_ascii_uppercase();
        let whole = match (parse_bool(&contents), upper.as_str()) {
            (Some(true), _) | (None, "HEX") => Contents::Hex,
            (Some(false), _) | (None, "NONE" | "") => Contents::None,
            (None, "ASCII") => Contents::Ascii,
            (None, upper) => {
                let text =
                    format!("bad contents value '{upper}'; should be 'NONE', 'HEX', or 'ASCII'");
                make.error(text);
                Contents::None
            }
        };
        let part = match payload.to_ascii_uppercase().as_str() {
            "" | "NO" | "FALSE" => Contents::None,
            "YES" | "TRUE" | "HEX" => Contents::Hex,
            "ASCII" => Contents::Ascii,
            _ => {
                // Click names the other value.
                let upper = if contents.is_empty() { "no".into() } else { upper };
                let text =
                    format!("bad payload value '{upper}'; should be 'false', 'hex', or 'ascii'");
                make.error(text);
                Contents::None
            }
        };
        if whole != Contents::None && part != Contents::None {
            make.error("specify at most one of PAYLOAD and CONTENTS");
        }
        let shown = Shown {
            label: make.or("LABEL", String::new()),
            timestamp: make.or("TIMESTAMP", true),
            aggregate: make.or("AGGREGATE", false),
            paint: make.or("PAINT", false),
            ident: make.or("ID", false),
            ttl: make.or("TTL", false),
            tos: make.or("TOS", false),
            length: make.or("LENGTH", false),
            swap: make.or("SWAP", true),
            payload: part != Contents::None,
            contents: if part == Contents::None { whole } else { part },
            most,
        };
        IpPrint {
            shown,
            ether: make.or("ETHER", false),
            active: make.or("ACTIVE", true),
            path: make.get("OUTFILE"),
            file: None,
            text: String::new(),
        }
    }
}

/// The Ethernet header, where the packet still has it in front of its IP header.
fn ethernet_header<'a>(slot: &Slot, bytes: &'a [u8], meta: &Meta) -> Option<&'a [u8; HEADER]> {
    let at = marked(slot, meta).map_or(Some(0), |at| usize::try_from(at).ok())?;
    let header = bytes.get(at..)?.first_chunk()?;
    (at + HEADER <= usize::from(meta.network)).then_some(header)
}

impl Element for IpPrint {
    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        if let Some(Filename(path)) = &self.path {
            let file = File::create(path);
            self.file = Some(file.map_err(|error| {
                let error = error.to_string();
                let error = error.split(" (os error").next().unwrap_or_default();
                format!("{}: {error}", path.display())
            })?);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.active {
            return;
        }
        let arena = cx.pool.arena();
        for slot in frame.slots() {
            let (bytes, meta) = (arena.packet(slot), arena.meta(slot));
            if meta.network != Meta::UNSET {
                let line = Line::new(&self.shown, bytes, meta);
                let ethernet = self.ether.then(|| ethernet_header(slot, bytes, meta)).flatten();
                line.with_ethernet(ethernet).write(&mut self.text);
            }
        }
        match &mut self.file {
            // What cannot be written is lost, as with Click.
            Some(file) => drop(file.write_all(self.text.as_bytes())),
            None => cx.console().report(&self.text),
        }
        self.text.clear();
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        _: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match handler {
            "active" => self.active = boolean(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn ethernet_addresses_are_shown_where_they_are_there() {
        for limit in [1, 7, 256] {
            let packet = "020000000001 020000000002 0800 45000014 00000000 40110000 01000001 \
                02000002";
            let mut run = Run::new(&format!(
                "InfiniteSource(\\<{packet}>, LIMIT 1, STOP true) -> MarkIPHeader(14) \
                    -> IPPrint(a, ETHER true, TIMESTAMP false) -> Strip(14) \
                    -> IPPrint(b, ETHER true, TIMESTAMP false) -> Discard"
            ))
            .frame_limit(limit);
            run.run();
            let (said, addresses) = (run.output(), "02-00-00-00-00-02 > 02-00-00-00-00-01: ");
            assert!(said.contains(&format!("a: {addresses}1.0.0.1 > 2.0.0.2: ")), "{said}");
            assert!(said.contains("b: 1.0.0.1 > 2.0.0.2: "), "{said}");
        }
    }
}
