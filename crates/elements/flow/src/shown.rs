//! Dump of the fast path's entries.

use linerate_flow::cache::Shown;
use linerate_flow::pipeline::{looked_at, print_steps};
use linerate_flow::text::Syntax;
use linerate_flow::wire::Version;

/// An entry in a line.
pub(crate) fn entry(shown: &Shown, now: u64) -> String {
    let age = now.saturating_sub(shown.made) as f64 / 1e9;
    let rate = if age > 0.0 { shown.packets as f64 / age } else { 0.0 };
    let again = match shown.key.continuation() {
        0 => String::new(),
        number => format!(",recirc_id={number}"),
    };
    format!(
        "{}{again}, packets:{}, bytes:{}, rate:{rate:.0}, used:{:.1}s, steps:{}\n",
        Syntax::new(Version::V15).print_match(&looked_at(&shown.key, &shown.mask)),
        shown.packets,
        shown.bytes,
        now.saturating_sub(shown.used) as f64 / 1e9,
        print_steps(&shown.decision.steps),
    )
}
