//! Headers in front of others: what an expression asks for behind one of them is looked for
//! inside of it.

use super::{
    primitives::{Header, IPV4, IPV6, IPV6_HEADER, MPLS, PPPOE_SESSION, Place, TAGS, UDP},
    spot::{PLACES_MAX, Spot},
    tree::{Base, Number, Relation, Tree, Tunnel},
};

/// The port of UDP that Geneve has (RFC 8926).
const GENEVE: u32 = 6081;

impl Place {
    /// Frames with a VLAN tag, of one VLAN or any. Everything asked for later
    /// is behind it.
    pub(super) fn vlan(&mut self, number: Option<u32>) -> Result<Tree, String> {
        if self.header != Header::Ethernet {
            return Err(format!("no VLAN support for {}", self.header.name()));
        }
        if self.labelled {
            return Err("no VLAN match after MPLS".into());
        }
        let is = |kind: &u32| self.has(*kind);
        let tagged = Tree::Any(TAGS.iter().map(is).collect::<Result<_, _>>()?);
        let tag = self.payload;
        (self.kind, self.payload) = (self.kind + 4, self.payload + 4);
        match number {
            None => Ok(tagged),
            Some(number @ 0..=0xfff) => {
                Ok(Tree::All(vec![tagged, Tree::equal(tag, 2, 0xfff, number)]))
            }
            Some(number) => Err(format!("VLAN tag {number} greater than maximum 4095")),
        }
    }

    /// Packets with a label of MPLS, a given one or any. Everything asked for later is behind it.
    pub(super) fn mpls(&mut self, label: Option<u32>) -> Result<Tree, String> {
        if self.header == Header::Missing {
            return Err(format!("no MPLS support for {}", self.header.name()));
        }
        let labelled =
            if self.labelled { Tree::equal(self.network() - 2, 1, 1, 0) } else { self.has(MPLS)? };
        let at = self.network();
        (self.labels, self.labelled) = (self.labels + 1, true);
        match label {
            None => Ok(labelled),
            Some(label @ 0..=0xf_ffff) => {
                Ok(Tree::All(vec![labelled, Tree::equal(at, 4, 0xffff_f000, label << 12)]))
            }
            Some(label) => Err(format!("MPLS label {label} greater than maximum 1048575")),
        }
    }

    /// Packets of a session of PPP over Ethernet, a given one or any. Everything asked for later
    /// is inside of it.
    pub(super) fn session(&mut self, number: Option<u32>) -> Result<Tree, String> {
        let within = self.has(PPPOE_SESSION)?;
        let session = self.network();
        let (link, payload) = (session + 6, session + 8);
        let header = Header::Ppp;
        *self = Place { link, kind: link, payload, labels: 0, header, optional: None, ..*self };
        match number {
            None => Ok(within),
            Some(number @ 0..=0xffff) => {
                Ok(Tree::All(vec![within, Tree::equal(session, 4, 0xffff, number)]))
            }
            Some(number) => {
                Err(format!("PPPoE session number {number} greater than maximum 65535"))
            }
        }
    }

    /// Packets of Geneve, of one virtual network or any. Everything asked for later is inside of
    /// it, be that an Ethernet frame or a packet of another protocol.
    pub(super) fn geneve(&mut self, network: Option<u32>) -> Result<Tree, String> {
        if let Some(number @ 0x100_0000..) = network {
            return Err(format!("Geneve VNI {number} greater than maximum 16777215"));
        }
        let first = self.places;
        if first + 3 > PLACES_MAX {
            return Err("too many registers needed to evaluate expression".into());
        }
        let header = self.network();
        let is_udp = |at: u32| Tree::equal(header + at, 1, u32::MAX, UDP);
        let inside = |mut parts: Vec<Tree>, udp: Base| {
            let number = |at: u32, size: usize| Number::load_at(udp, at, size);
            parts.push(number(2, 2).is(Relation::Equal, GENEVE));
            // The only version there is.
            parts.push(number(8, 1).masked(0xc0).is(Relation::Equal, 0));
            if let Some(network) = network {
                parts.push(number(12, 4).masked(0xffff_ff00).is(Relation::Equal, network << 8));
            }
            parts.push(Tree::Enter(Tunnel { udp, first }));
            Tree::All(parts)
        };
        let four = vec![self.has(IPV4)?, is_udp(9), self.first()];
        let six = vec![self.has(IPV6)?, is_udp(6)];
        let either = vec![
            inside(four, Base::BehindIpv4(header)),
            inside(six, Base::At(header + IPV6_HEADER)),
        ];
        // That there were labels stays so, as in libpcap: what is inside is looked for as if it
        // were behind them.
        *self = Place {
            kind: Spot::found(first),
            link: Spot::found(first + 1),
            payload: Spot::found(first + 2),
            labels: 0,
            labelled: self.labelled,
            header: Header::Ethernet,
            optional: Some(first + 1),
            places: first + 3,
        };
        Ok(Tree::Any(either))
    }
}
