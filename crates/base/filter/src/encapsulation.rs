//! Headers in front of others: conditions behind one of them in an expression are tested inside of
//! it.

use super::{
    code,
    offset_slots::{Offset, PLACES_MAX},
    primitives::{Header, HeaderContext, IPV4, IPV6, IPV6_HEADER, MPLS, PPPOE_SESSION, TAGS, UDP},
    tree::{Base, Number, Relation, Tree, Tunnel, VLAN_TAG_LENGTH},
};

/// The port of UDP that Geneve has (RFC 8926).
const GENEVE: u32 = 6081;

impl HeaderContext {
    /// Frames with a VLAN tag, of one VLAN or any. Everything asked for later
    /// is behind it.
    pub(super) fn vlan(&mut self, number: Option<u32>) -> Result<Tree, String> {
        if self.header != Header::Ethernet {
            return Err(format!("no VLAN support for {}", self.header.name()));
        }
        if self.labelled {
            return Err("no VLAN match after MPLS".into());
        }
        if let Some(number @ 0x1000..) = number {
            return Err(format!("VLAN tag {number} greater than maximum 4095"));
        }
        let is = |kind: &u32| self.has(*kind);
        let tagged = Tree::Any(TAGS.iter().map(is).collect::<Result<_, _>>()?);
        // Not inside of a tunnel.
        if std::mem::take(&mut self.has_tag_beside) && self.link == Offset::at(0) {
            return self.outer_vlan(tagged, number);
        }
        let tag = self.payload;
        let behind = |offset: Offset| offset + VLAN_TAG_LENGTH;
        (self.kind, self.payload) = (behind(self.kind), behind(self.payload));
        Ok(match number {
            None => tagged,
            Some(number) => Tree::All(vec![tagged, Tree::equal(tag, 2, 0xfff, number)]),
        })
    }

    /// Frames whose outer tag is known besides, or which have one in them (`tagged`). The offset of
    /// everything else depends on that, as in libpcap's program for an interface: it counts a tag
    /// in the packet as soon as it looks for one.
    fn outer_vlan(&mut self, tagged: Tree, number: Option<u32>) -> Result<Tree, String> {
        let place = self.places;
        if place >= PLACES_MAX {
            return Err("too many registers needed to evaluate expression".into());
        }
        let is_beside = || Number::Ancillary(code::VLAN_TAG_PRESENT).is(Relation::Equal, 1);
        let tagged = Tree::Any(vec![is_beside(), Tree::All(vec![Tree::PassTag(place), tagged])]);
        let tag = self.payload;
        let moved = |offset: Offset| Offset { from: Some(place), ..offset };
        (self.kind, self.payload) = (moved(self.kind), moved(self.payload));
        self.places += 1;
        let Some(number) = number else { return Ok(tagged) };
        let beside = Number::Ancillary(code::VLAN_TAG).masked(0xfff).is(Relation::Equal, number);
        let inside = Tree::equal(tag, 2, 0xfff, number);
        let is_number = Tree::Any(vec![
            Tree::All(vec![is_beside(), beside]),
            Tree::All(vec![Tree::Not(Box::new(is_beside())), inside]),
        ]);
        Ok(Tree::All(vec![tagged, is_number]))
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
        *self =
            HeaderContext { link, kind: link, payload, labels: 0, header, optional: None, ..*self };
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
        // That there were labels stays so, as in libpcap: headers inside are looked for as if they
        // were behind them.
        *self = HeaderContext {
            kind: Offset::found(first),
            link: Offset::found(first + 1),
            payload: Offset::found(first + 2),
            labels: 0,
            labelled: self.labelled,
            header: Header::Ethernet,
            optional: Some(first + 1),
            places: first + 3,
            has_tag_beside: self.has_tag_beside,
        };
        Ok(Tree::Any(either))
    }
}
