//! Reads packets from the other node, and writes packets to it.

use std::io;

use phalanx_mqtt::{Frame, Kind, Packet, Version};

use crate::lane::Lane;

/// Size in bytes above which no more of the lane's own packets are added.
pub(super) const MAX_OWN_BYTES: usize = 64 * 1024;

impl Lane {
    /// Waits for packets that the session has to process, and appends them to `buffer`. Returns the number of bytes; 0
    /// at the end.
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let before = buffer.len();
        loop {
            buffer.append(&mut self.injected.borrow_mut());
            let mut input = self.input.take();
            match self.process_packets(&input, buffer) {
                Ok(taken) => {
                    // An incomplete packet stays in the same buffer, because a large one arrives in many parts.
                    input.drain(..taken);
                    // No input was added meanwhile: frames are received by another operation on this processor.
                    self.input.replace(input);
                    self.add_processed(taken);
                }
                Err(reason) => self.close(&reason),
            }
            if buffer.len() > before {
                return Ok(buffer.len() - before);
            }
            if self.is_closed() {
                return Ok(0);
            }
            if self.injected.borrow().is_empty() {
                self.reader.notified().await;
            }
        }
    }

    /// Processes the complete packets of the input. Returns their total length.
    fn process_packets(&self, input: &[u8], buffer: &mut Vec<u8>) -> Result<usize, String> {
        let mut taken = 0;
        while let Some(frame) = Frame::split(&input[taken..], self.options.max_incoming_packet)
            .map_err(|error| error.message())?
        {
            let bytes = &input[taken..taken + frame.length()];
            taken += frame.length();
            match frame.kind() {
                Kind::Publish | Kind::PubAck | Kind::PubRec | Kind::PubRel | Kind::PubComp => {
                    buffer.extend_from_slice(bytes);
                }
                kind => {
                    let packet =
                        Packet::decode(frame, Version::V5).map_err(|error| error.message())?;
                    match packet {
                        Packet::Subscribe(subscribe) => self.record_announced(&subscribe),
                        Packet::SubAck(ack) => self.handle_answer(ack.reasons),
                        Packet::UnsubAck(ack) if ack.id != Self::INJECTED_ID => {
                            self.handle_answer(&[])
                        }
                        Packet::PingReq => self.remove_stale(),
                        Packet::Auth(auth) => self.record_members(&auth),
                        Packet::Disconnect(end) => {
                            return Err(format!("the node disconnected: {}", end.reason));
                        }
                        _ => (),
                    }
                    if matches!(kind, Kind::Subscribe | Kind::Unsubscribe) {
                        buffer.extend_from_slice(bytes);
                    }
                }
            }
        }
        Ok(taken)
    }

    /// Waits until more of the lane's own packets can be added.
    pub(crate) async fn wait_for_capacity(&self) {
        while self.own_packets.borrow().len() > MAX_OWN_BYTES && !self.is_closed() {
            self.drained.notified().await;
        }
    }

    /// Adds packets for the other node to the lane's own.
    pub(crate) fn add(&self, packets: impl Iterator<Item = Vec<u8>>) {
        self.own_packets.borrow_mut().extend(packets.flatten());
        self.wake_sender();
    }

    /// Whether the lane has packets of its own to send.
    pub(crate) fn has_own_packets(&self) -> bool {
        !self.is_closed() && (!self.own_packets.borrow().is_empty() || self.has_announcements())
    }

    /// Sends packets of the session, after the lane's own.
    pub(crate) async fn write(&self, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = self.own_packets.take();
        self.is_sending_own_packets.set(true);
        self.drained.notify();
        self.announce(&mut out);
        let answered = self.send(&out).await;
        self.is_sending_own_packets.set(false);
        let sent = match answered {
            Ok(()) => self.send(&bytes).await,
            Err(reason) => Err(reason),
        };
        bytes.clear();
        sent.map(|()| bytes).map_err(|reason| io::Error::new(io::ErrorKind::BrokenPipe, reason))
    }
}
