//! CAA: who may issue for a name (RFC 8659, RFC 8657).

use hickory_proto::rr::rdata::CAA;

use super::super::problem::{Kind, Problem};
use super::super::{CAA_IDENTITY, Ca};
use super::Task;
use crate::faults::FaultKind;

/// Checks that the records nearest to the name let this CA issue.
pub(super) async fn check(ca: &Ca, task: &Task) -> Result<(), Problem> {
    if ca.faults.strikes_name(FaultKind::Caa, &task.name) {
        let detail = format!("CAA for {} forbids issuing (a fault is switched on)", task.name);
        return Err(Problem::new(Kind::Caa, detail));
    }
    let mut name = task.name.as_str();
    loop {
        let records = ca.resolver.caa(name).await?;
        if !records.is_empty() {
            return judge(task, name, &records);
        }
        match name.split_once('.') {
            Some((_, parent)) => name = parent,
            None => return Ok(()),
        }
    }
}

fn judge(task: &Task, found_at: &str, records: &[CAA]) -> Result<(), Problem> {
    let forbidden = |why: &str| {
        let detail = format!("CAA record at {found_at} prevents issuance for {}: {why}", task.name);
        Err(Problem::new(Kind::Caa, detail))
    };
    let known = ["issue", "issuewild", "iodef"];
    let tag = |record: &CAA| record.tag.to_ascii_lowercase();
    if records.iter().any(|one| one.issuer_critical && !known.contains(&tag(one).as_str())) {
        return forbidden("it has a critical property that is not understood");
    }
    let wild = task.wildcard && records.iter().any(|one| tag(one) == "issuewild");
    let property = if wild { "issuewild" } else { "issue" };
    let mut relevant = records.iter().filter(|one| tag(one) == property).peekable();
    if relevant.peek().is_none()
        || relevant.any(|one| permits(task, &String::from_utf8_lossy(&one.value)))
    {
        return Ok(());
    }
    forbidden(&format!("no {property} property names {CAA_IDENTITY} with fitting parameters"))
}

/// Whether a value names this CA, and this account and method if it names any.
fn permits(task: &Task, value: &str) -> bool {
    let mut parts = value.split(';').map(str::trim);
    if !parts.next().is_some_and(|issuer| issuer.eq_ignore_ascii_case(CAA_IDENTITY)) {
        return false;
    }
    parts.filter(|part| !part.is_empty()).all(|part| {
        let Some((key, value)) = part.split_once('=') else { return false };
        match key.trim().to_ascii_lowercase().as_str() {
            "accounturi" => value.trim() == task.account_url,
            "validationmethods" => value.split(',').any(|one| one.trim() == task.kind.name()),
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::challenge::ChallengeKind;
    use super::*;

    fn task(wildcard: bool) -> Task {
        Task {
            name: "shop.test".to_owned(),
            wildcard,
            kind: ChallengeKind::Http01,
            token: String::new(),
            key_authorization: String::new(),
            account_url: "https://ca/acme/account/1".to_owned(),
        }
    }

    fn record(flags: u8, tag: &str, value: &str) -> CAA {
        let mut caa = CAA::new_issue(flags & 0x80 != 0, None, Vec::new());
        tag.clone_into(&mut caa.tag);
        caa.value = value.as_bytes().to_vec();
        caa
    }

    #[test]
    fn records_are_judged_as_the_rfcs_say() {
        let ours = "ca.holdfast.test";
        let ca = |rest: &str| format!("{ours}{rest}");
        let cases = [
            (vec![record(0, "issue", ours)], false, true),
            (vec![record(0, "Issue", "CA.holdfast.TEST")], false, true),
            (vec![record(0, "issue", "other.test")], false, false),
            (vec![record(0, "issue", "other.test"), record(0, "issue", ours)], false, true),
            (vec![record(0, "issue", ";")], false, false),
            (vec![record(0, "iodef", "mailto:a@b.test")], false, true),
            (vec![record(0, "future", "x")], false, true),
            (vec![record(128, "future", "x"), record(0, "issue", ours)], false, false),
            (vec![record(0, "issuewild", "other.test")], false, true),
            (vec![record(0, "issuewild", "other.test")], true, false),
            (vec![record(0, "issue", "other.test"), record(0, "issuewild", ours)], true, true),
            (vec![record(0, "issue", ours)], true, true),
            (vec![record(0, "issue", &ca("; accounturi=https://ca/acme/account/1"))], false, true),
            (vec![record(0, "issue", &ca("; accounturi=https://ca/acme/account/2"))], false, false),
            (vec![record(0, "issue", &ca(";validationmethods=dns-01,http-01"))], false, true),
            (vec![record(0, "issue", &ca("; validationmethods=dns-01"))], false, false),
            (vec![record(0, "issue", &ca("; nonsense"))], false, false),
        ];
        for (records, wildcard, expected) in cases {
            let judged = judge(&task(wildcard), "shop.test", &records);
            assert_eq!(judged.is_ok(), expected, "{records:?} {judged:?}");
        }
    }
}
