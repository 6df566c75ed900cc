//! Dump of the flow cache's entries.

use linerate_ofswitch::cache::EntryInfo;
use linerate_ofswitch::pipeline::{looked_at, print_steps};
use linerate_openflow::text::Syntax;
use linerate_openflow::wire::Version;

/// An entry in a line.
pub(crate) fn entry(info: &EntryInfo, now: u64) -> String {
    let age = now.saturating_sub(info.made) as f64 / 1e9;
    let rate = if age > 0.0 { info.packets as f64 / age } else { 0.0 };
    let again = match info.key.continuation() {
        0 => String::new(),
        number => format!(",recirc_id={number}"),
    };
    format!(
        "{}{again}, packets:{}, bytes:{}, rate:{rate:.0}, used:{:.1}s, steps:{}\n",
        Syntax::new(Version::V15).print_match(&looked_at(&info.key, &info.mask)),
        info.packets,
        info.bytes,
        now.saturating_sub(info.used) as f64 / 1e9,
        print_steps(&info.decision.steps),
    )
}
