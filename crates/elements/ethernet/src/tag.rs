//! VLAN tags in arguments and handlers.

use linerate_graph::{
    Arg, Context, ElementBuilder, Handler, HandlerError, HandlerResult, Scope, Value, Word,
    integer_in,
};
use linerate_packet::vlan::Tci;

use super::written;

/// An integer between two others.
#[derive(Clone, Copy)]
pub(super) struct Bounded<const LOW: i32, const HIGH: i32>(pub(super) i32);

impl<const LOW: i32, const HIGH: i32> Value for Bounded<LOW, HIGH> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Self, String> {
        let value = integer_in(text, 0, true).ok_or("invalid number")?;
        let bound = if value < i128::from(LOW) { LOW } else { HIGH };
        let within = i32::try_from(value).ok().filter(|value| (LOW..=HIGH).contains(value));
        within.map(Bounded).ok_or_else(|| format!("out of range, bound {bound}"))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}

pub(super) const TCI: Arg =
    Arg::optional("VLAN_TCI", "0 to 0xFFFF or ANNO", "0", "the tag; ANNO: from the annotation");
pub(super) const PCP: Arg = Arg::optional("VLAN_PCP", "0 to 7", "0", "the priority");
pub(super) const ID: Arg =
    Arg::keyword("VLAN_ID", "0 to 0xFFF", "0", "the VLAN, where VLAN_TCI is not given");
pub(super) const NATIVE: Arg =
    Arg::keyword("NATIVE_VLAN", "-1 to 0xFFF", "0", "the VLAN whose packets get no tag");

pub(super) const HANDLERS: [Handler; 3] = [
    Handler::value("vlan_tci", "the tag; ANNO if it is the annotation's"),
    Handler::value("vlan_id", "the VLAN"),
    Handler::value("vlan_pcp", "the priority"),
];
pub(super) const NATIVE_HANDLER: Handler =
    Handler::value("native_vlan", "the VLAN whose packets get no tag");
pub(super) const CONFIG: Handler =
    Handler::value("config", "the configuration, with the tag taken apart");

/// The tag packets get.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tagging {
    /// As written; not used where `annotated`.
    pub(super) tci: u16,
    /// Whether each packet's annotation says it.
    pub(super) annotated: bool,
    /// Below zero for none.
    native: i32,
}

impl Tagging {
    /// From all four arguments, or those but `NATIVE_VLAN`, and then without
    /// `ANNO`.
    pub(super) fn from_args(make: &mut ElementBuilder<'_>, native: bool) -> Tagging {
        let mut tagging = Tagging::default();
        let mut tci = None;
        if native {
            if let Some(Word(word)) = make.get("VLAN_TCI") {
                tagging.annotated = word == "ANNO";
                match make.parse::<Bounded<0, 0xffff>>(&word) {
                    _ if tagging.annotated => {}
                    Ok(Bounded(value)) => tci = Some(value),
                    Err(error) => make.error(format!("VLAN_TCI: {error}")),
                }
            }
            let Bounded(value) = make.or("NATIVE_VLAN", Bounded::<-1, 0xfff>(0));
            tagging.native = value;
        } else {
            tci = make.get("VLAN_TCI").map(|Bounded::<0, 0xffff>(value)| value);
        }
        let Bounded(pcp) = make.or("VLAN_PCP", Bounded::<0, 7>(0));
        let Bounded(id) = make.or("VLAN_ID", Bounded::<0, 0xfff>(0));
        tagging.set(tci.unwrap_or(id) as u16, pcp as u16);
        tagging
    }

    /// Returns true if packets of that tag go without one.
    #[inline]
    pub(super) fn is_native(self, tci: u16) -> bool {
        i32::from(tci & 0xfff) == self.native
    }

    fn set(&mut self, tci: u16, pcp: u16) {
        self.tci = tci | pcp << 13;
    }

    /// Returns text that stands for the arguments.
    pub(super) fn text(self) -> String {
        let tag = Tci(self.tci);
        let mut text = if self.annotated {
            String::from("ANNO")
        } else {
            format!("VLAN_ID {}, VLAN_PCP {}", tag.id(), tag.priority())
        };
        if self.native != 0 {
            text += &format!(", NATIVE_VLAN {}", self.native);
        }
        text
    }

    pub(super) fn read(self, handler: &str) -> HandlerResult {
        let tag = Tci(self.tci);
        Ok(match handler {
            "vlan_tci" if self.annotated => "ANNO".into(),
            "vlan_id" | "vlan_pcp" if self.annotated => String::new(),
            "native_vlan" if self.native == 0 => String::new(),
            "vlan_tci" => tag.0.to_string(),
            "vlan_id" => tag.id().to_string(),
            "vlan_pcp" => tag.priority().to_string(),
            "native_vlan" => self.native.to_string(),
            _ => return Err(HandlerError::missing(handler)),
        })
    }

    pub(super) fn write(
        &mut self,
        cx: &Context,
        handler: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let tag = Tci(self.tci);
        match handler {
            "vlan_tci" if value.trim() == "ANNO" => self.annotated = true,
            "vlan_tci" => {
                let Bounded::<0, 0xffff>(tci) = written(cx, "VLAN_TCI", value)?;
                self.set(tci as u16, u16::from(tag.priority()));
                self.annotated = false;
            }
            "vlan_id" => {
                let Bounded::<0, 0xfff>(id) = written(cx, "VLAN_ID", value)?;
                self.set(id as u16, u16::from(tag.priority()));
                self.annotated = false;
            }
            "vlan_pcp" => {
                let Bounded::<0, 7>(pcp) = written(cx, "VLAN_PCP", value)?;
                self.set(tag.id(), pcp as u16);
            }
            "native_vlan" => {
                let Bounded::<-1, 0xfff>(native) = written(cx, "NATIVE_VLAN", value)?;
                self.native = native;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(())
    }
}
