//! Keywords of properties that Ethernet frames do not have, or that are not known of them, with
//! libpcap's errors.

/// Why a keyword is refused; `None` for every other word.
pub(super) fn refused(word: &str) -> Option<&'static str> {
    Some(match word {
        // Known to a socket besides the packet.
        "inbound" | "outbound" => {
            "inbound/outbound not supported on Ethernet: a port has a direction, as with -Q in"
        }
        "ifindex" => "ifindex not supported on Ethernet: name the interface to capture from",
        "gateway" => "'gateway' not supported in this configuration",
        // The packet filter of BSD.
        "ifname" | "on" => "ifname supported only on PF linktype",
        "rnr" | "rulenum" => "rnr supported only on PF linktype",
        "srnr" | "subrulenum" => "srnr supported only on PF linktype",
        "rset" | "ruleset" => "ruleset supported only on PF linktype",
        "reason" => "reason supported only on PF linktype",
        "action" => "action supported only on PF linktype",
        // IEEE 802.11.
        "type" | "subtype" => "802.11 link-layer types supported only on 802.11",
        "dir" | "direction" => "frame direction supported only with 802.11 headers",
        "addr1" | "address1" => {
            "'addr1' and 'address1' are only supported on 802.11 with 802.11 headers"
        }
        "addr2" | "address2" => {
            "'addr2' and 'address2' are only supported on 802.11 with 802.11 headers"
        }
        "addr3" | "address3" => {
            "'addr3' and 'address3' are only supported on 802.11 with 802.11 headers"
        }
        "addr4" | "address4" => {
            "'addr4' and 'address4' are only supported on 802.11 with 802.11 headers"
        }
        "ra" => "'ra' is only supported on 802.11 with 802.11 headers",
        "ta" => "'ta' is only supported on 802.11 with 802.11 headers",
        "radio" => "radio information not present in capture",
        // ATM.
        "vpi" => "'vpi' supported only on raw ATM",
        "vci" => "'vci' supported only on raw ATM",
        "lane" => "'lane' supported only on raw ATM",
        "metac" => "'metac' supported only on raw ATM",
        "bcc" => "'bcc' supported only on raw ATM",
        "oam" => "'oam' supported only on raw ATM",
        "oamf4" => "'oamf4' supported only on raw ATM",
        "oamf4ec" => "'oam4ec' supported only on raw ATM",
        "oamf4sc" => "'oam4sc' supported only on raw ATM",
        "sc" => "'sc' supported only on raw ATM",
        "ilmic" => "'ilmic' supported only on raw ATM",
        "connectmsg" => "'connectmsg' supported only on raw ATM",
        "metaconnect" => "'metaconnect' supported only on raw ATM",
        // Signalling System 7.
        "fisu" => "'fisu' supported only on MTP2",
        "lssu" | "lsu" => "'lssu' supported only on MTP2",
        "msu" => "'msu' supported only on MTP2",
        "hfisu" => "'hfisu' supported only on MTP2_HSL",
        "hlssu" => "'hlssu' supported only on MTP2_HSL",
        "hmsu" => "'hmsu' supported only on MTP2_HSL",
        "sio" | "hsio" => "'sio' supported only on SS7",
        "opc" | "hopc" => "'opc' supported only on SS7",
        "dpc" | "hdpc" => "'dpc' supported only on SS7",
        "sls" | "hsls" => "'sls' supported only on SS7",
        _ => return None,
    })
}
