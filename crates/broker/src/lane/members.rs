//! Announces the online members of shared subscriptions. The data of an AUTH packet are pairs of a group's number and the
//! number of its online members. A first pair of zeros means that all other groups have one member.
//!
//! AUTH is used because it does not concern the sessions, and earlier versions ignore it.

use phalanx_mqtt::{Auth, Packet, Property, PropertyBuffer, Reason, Version};

use crate::lane::Lane;
use crate::lane::transport::MAX_OWN_BYTES;
use crate::peers::members::Counts;

/// Maximum number of groups in one packet, and bytes of each.
const MAX_GROUPS: usize = 4096;
const GROUP_BYTES: usize = 8;

impl Lane {
    /// Announces the numbers of online members at this node, if they have changed. Called at intervals, which limits the
    /// rate of announcements.
    pub(crate) fn announce_members(&self) {
        // The other node's router knows this node only after it has this node's filters.
        let is_ready = self.is_announced.get() && self.unanswered.get() == 0;
        if !is_ready || self.is_closed() || self.own_packets.borrow().len() > MAX_OWN_BYTES {
            return;
        }
        let max_groups = MAX_GROUPS.min(self.max_announced_bytes() / GROUP_BYTES).max(1);
        let Some(counts) = self.options.peers.members.take(&self.options.node, max_groups) else {
            return;
        };
        self.add(std::iter::once(packet(&counts)));
    }

    /// Notes the numbers that the other node announces.
    pub(super) fn record_members(&self, auth: &Auth<'_>) {
        let announced = counts(auth);
        let mut members = self.members.borrow_mut();
        match &mut *members {
            Some(members) if !announced.is_snapshot => members.changed.extend(announced.changed),
            members => *members = Some(announced),
        }
    }

    /// Takes the numbers that the other node has announced.
    pub(crate) fn take_members(&self) -> Option<Counts> {
        self.members.take()
    }

    /// Puts back numbers that the router did not accept, before later ones.
    pub(crate) fn return_members(&self, taken: Counts) {
        let mut members = self.members.borrow_mut();
        let later = members.take();
        let mut all = taken;
        all.changed.extend(later.into_iter().flat_map(|counts| counts.changed));
        *members = Some(all);
    }
}

fn packet(counts: &Counts) -> Vec<u8> {
    let first = counts.is_snapshot.then_some((0, 0));
    let pairs = first.into_iter().chain(counts.changed.iter().copied());
    let data: Vec<u8> = pairs
        .flat_map(|(id, count): (u32, u32)| [id, count].map(u32::to_be_bytes))
        .flatten()
        .collect();
    let (mut properties, mut out) = (PropertyBuffer::new(), Vec::new());
    // Cannot fail: the data are shorter than 64 KiB.
    let _ = properties.push(Property::AuthenticationData(&data));
    let auth = Auth { reason: Reason::SUCCESS, properties: properties.get() };
    let _ = Packet::Auth(auth).encode(Version::V5, &mut out);
    out
}

fn counts(auth: &Auth<'_>) -> Counts {
    let mut counts = Counts::default();
    for property in auth.properties {
        let Property::AuthenticationData(data) = property else { continue };
        for pair in data.chunks_exact(GROUP_BYTES) {
            let [id, count] = [0, 4].map(|at| {
                let bytes = pair[at..].first_chunk().copied().unwrap_or_default();
                u32::from_be_bytes(bytes)
            });
            match id {
                0 => counts = Counts { is_snapshot: true, changed: Vec::new() },
                _ => counts.changed.push((id, count)),
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::Frame;

    use super::*;

    #[test]
    fn announced_members_are_decoded() {
        let all = Counts { is_snapshot: true, changed: vec![(1, 0), (u32::MAX, 7)] };
        let some =
            Counts { is_snapshot: false, changed: (1..=4096).map(|id| (id, id / 2)).collect() };
        let empty = Counts { is_snapshot: true, changed: Vec::new() };
        for members in [all, some, empty] {
            let bytes = packet(&members);
            let frame = Frame::split(&bytes, bytes.len()).unwrap().expect("a whole packet");
            let Packet::Auth(auth) = Packet::decode(frame, Version::V5).unwrap() else {
                panic!("not AUTH");
            };
            assert_eq!(counts(&auth), members);
        }
    }
}
