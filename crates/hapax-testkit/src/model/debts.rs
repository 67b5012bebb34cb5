//! What calls leave behind: what they still owe the ledger, and commands that arrive when nobody waits for them any more.

use hapax_core::turn::{Debt, Paid};
use hapax_core::{Report, Verdict};

use super::ledger::{Step, epoch, number};
use super::properties::Sighting;
use super::world::{Call, Message, Process, Told};

impl Step<'_> {
    /// Of a call that is over only what it owes is left.
    pub(super) fn owe(&mut self, index: usize, debt: Debt) {
        let process = self.process(index);
        process.debt = debt;
        let Call { epoch, report, .. } = process.call;
        process.call = match debt {
            Debt::Nothing | Debt::Abandon => Call::default(),
            Debt::NotRun | Debt::MayHaveRun => Call { epoch, ..Call::default() },
            Debt::Pending => Call { epoch, report, ..Call::default() },
        };
    }

    /// Tells the ledger what is owed (L13).
    pub(super) fn pay(&mut self, index: usize) {
        let Process { session, debt, call, .. } = self.world.processes[index];
        let report = match (debt, call.report) {
            (Debt::Abandon, _) => return self.pay_claim(index),
            (Debt::NotRun, _) => Told::ReleaseNo,
            (Debt::MayHaveRun, _) => Told::ReleasePerhaps,
            (Debt::Pending, Some(report)) => report,
            other => unreachable!("{other:?} is not owed"),
        };
        self.send_report(session, call.epoch, report.report());
        self.owe(index, debt.on(Paid::Heard));
    }

    fn pay_claim(&mut self, index: usize) {
        let paid = match self.claim(index) {
            Verdict::Granted(grant) => {
                self.seen.add(Sighting::Abandoned);
                self.process(index).call.epoch = number(grant.epoch);
                Paid::Granted
            }
            _ => Paid::Heard,
        };
        self.owe(index, Debt::Abandon.on(paid));
    }

    /// A command arrives that its sender does not wait for any more.
    pub(super) fn arrive(&mut self, message: Message) {
        let before = self.world.claim.clone();
        match message {
            Message::Claim { process, attempt, session } => {
                let ask = self.ask(process, attempt, session);
                self.apply(&hapax_core::Command::Claim(ask));
            }
            Message::Report { process, epoch, report } => {
                let session = self.world.processes[usize::from(process)].session;
                self.send_report(session, epoch, report.report());
            }
            Message::Clear { epoch: number } => {
                self.hold(epoch(number), Report::Cleared);
            }
            Message::Guard { epoch } => {
                self.commit_guarded(0, epoch);
            }
        }
        if before != self.world.claim {
            self.seen.add(Sighting::LateArrival);
        }
    }
}
