"""A controller that is master, or slave until the master is gone."""

import os
import socket

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3

RANK = int(os.environ["RANK"])


class Roles(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        switch = event.msg.datapath
        if RANK == 1:
            self.ask(switch, switch.ofproto.OFPCR_ROLE_MASTER, 1)
        else:
            self.ask(switch, switch.ofproto.OFPCR_ROLE_SLAVE, 1)
            hub.spawn(self.watch, switch)

    def ask(self, switch, role, generation):
        switch.send_msg(switch.ofproto_parser.OFPRoleRequest(switch, role, generation))

    def watch(self, switch):
        while True:
            hub.sleep(0.1)
            try:
                socket.create_connection(("127.0.0.1", 6653), 1).close()
            except ConnectionRefusedError:
                break
        self.ask(switch, switch.ofproto.OFPCR_ROLE_MASTER, 2)

    @set_ev_cls(ofp_event.EventOFPRoleReply, MAIN_DISPATCHER)
    def told(self, event):
        switch = event.msg.datapath
        self.flows(switch)
        switch.send_msg(switch.ofproto_parser.OFPBarrierRequest(switch))

    def flows(self, switch):
        parser = switch.ofproto_parser
        for source, target in ((1, 2), (2, 1)):
            actions = [parser.OFPActionOutput(target)]
            instructions = [
                parser.OFPInstructionActions(switch.ofproto.OFPIT_APPLY_ACTIONS, actions)
            ]
            switch.send_msg(
                parser.OFPFlowMod(
                    switch,
                    cookie=RANK,
                    priority=RANK,
                    match=parser.OFPMatch(in_port=source),
                    instructions=instructions,
                )
            )
        self.refused = False

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def error(self, event):
        ofproto = event.msg.datapath.ofproto
        message = (event.msg.type, event.msg.code)
        if message == (ofproto.OFPET_BAD_REQUEST, ofproto.OFPBRC_IS_SLAVE):
            self.refused = True
        else:
            print("error", message)

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def done(self, event):
        print("refused: it is a slave" if self.refused else "has its flows")
