//! Flows, groups and meters as texts, in the syntax of Open vSwitch's `ovs-ofctl`, both ways.
//!
//! ```
//! use linerate_openflow::text::Syntax;
//! use linerate_openflow::wire::{Field, FlowModCommand, Version};
//!
//! let syntax = Syntax::new(Version::V13);
//! let text = "table=1,priority=100,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=set_queue:3,output:2";
//! let flow = syntax.flow(text, FlowModCommand::Add).unwrap();
//! assert_eq!(flow.matching.exact(Field::TcpDst), Some(80));
//! let printed = "table=1, priority=100,tcp,nw_dst=10.0.0.0/8,tp_dst=80 actions=set_queue:3,output:2";
//! assert_eq!(syntax.print_flow(&flow), printed);
//!
//! let error = syntax.flow("tcp,tpc_dst=80,actions=drop", FlowModCommand::Add).unwrap_err();
//! assert_eq!(error.at(), 4..11);
//! assert_eq!(error.help(), Some("did you mean \"tcp_dst\"?"));
//! ```
//!
//! The keywords are those of ovs-fields(7), ovs-actions(7) and ovs-ofctl(8), and OpenFlow's names
//! of the fields and actions Open vSwitch does not have (`push_pbb`, `copy_ttl_in`, `ipv6_exthdr`).
//! Printed texts are parsed to the same, and by `ovs-ofctl`, too. Beside the gaps of the codec (see
//! [`wire`](crate::wire)) there is no `tun_ttl`, `tun_tos`, `skb_priority`, `recirc_id` and
//! `dp_hash`, which no switch takes from a controller.
//!
//! A text that could be taken for less than it means is an error here: `nw_dst=10.0.0.1` without
//! `ip`, which `ovs-ofctl` makes a flow for all packets, two values of a field, or a parenthesis
//! that is not closed.
//!
//! Some actions depend on the version: actions that OpenFlow 1.0 alone has (`mod_vlan_vid`) are
//! others in later ones, which depend on the flow's match.

mod action;
mod error;
mod fields;
mod flow;
mod group;
mod lines;
mod matching;
mod meter;
mod names;
mod number;
mod print_match;
mod scan;
mod value;

pub use error::TextError;
pub use lines::{TextLine, lines};
pub use names::Names;

use crate::wire::{Action, Instruction, Match, Version};
use scan::Pairs;

/// The syntax, for a version of the protocol and the names a switch has.
#[derive(Debug, Clone, Copy)]
pub struct Syntax<'n> {
    version: Version,
    names: Option<&'n Names>,
}

impl<'n> Syntax<'n> {
    /// The syntax where nothing has a name.
    #[must_use]
    pub fn new(version: Version) -> Syntax<'n> {
        Syntax { version, names: None }
    }

    /// The syntax with these names.
    #[must_use]
    pub fn with_names(version: Version, names: &'n Names) -> Syntax<'n> {
        Syntax { version, names: Some(names) }
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    fn names(&self) -> &Names {
        static NONE: std::sync::LazyLock<Names> = std::sync::LazyLock::new(Names::new);
        self.names.unwrap_or(&NONE)
    }

    /// A match: `tcp,nw_src=10.0.0.0/8`.
    pub fn matching(&self, text: &str) -> Result<Match, TextError> {
        let parse = || {
            let mut builder = matching::MatchBuilder::default();
            for pair in Pairs::new(text) {
                let pair = pair?;
                if !builder.take(&pair, self.names())? {
                    return Err(error::Fail::unknown(pair.key, "field", matching::words()));
                }
            }
            builder.finish(self.version)
        };
        parse().map_err(|fail| fail.within(text))
    }

    /// Parses actions: `set_field:10.0.0.1->ip_dst,output:2`.
    ///
    /// The match is unknown, so actions that depend on it are refused, as `mod_tp_dst`.
    pub fn actions(&self, text: &str) -> Result<Vec<Action>, TextError> {
        let mut scope = action::Scope::new(*self, &Match::new());
        action::parse_actions(text, &mut scope).map_err(|fail| fail.within(text))
    }

    /// Instructions, as they stand behind `actions=` of a flow that matches this.
    pub fn instructions(
        &self,
        text: &str,
        matching: &Match,
    ) -> Result<Vec<Instruction>, TextError> {
        let mut scope = action::Scope::new(*self, matching);
        action::parse_instructions(text, &mut scope).map_err(|fail| fail.within(text))
    }

    /// A match as a text; empty for all packets.
    #[must_use]
    pub fn print_match(&self, matching: &Match) -> String {
        print_match::print(matching, self.names())
    }

    /// Actions as a text; `drop` for none.
    #[must_use]
    pub fn print_actions(&self, actions: &[Action]) -> String {
        action::print_actions(actions, self)
    }

    /// Instructions as a text; `drop` for none.
    #[must_use]
    pub fn print_instructions(&self, instructions: &[Instruction]) -> String {
        action::print_instructions(instructions, self)
    }
}
