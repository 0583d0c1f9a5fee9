//! Finalizing: from a ready order and a CSR to a certificate (RFC 8555, section 7.4).
//!
//! The order becomes `processing` under its lock, so of two requests at once one is refused. The signing itself
//! happens outside every lock; with no delay asked for, the answer already says `valid`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::Ca;
use super::authority::Oddity;
use super::certificate::Certificate;
use super::csr::Csr;
use super::jwk::Jwk;
use super::order::{Order, OrderStatus, Stage, must_be_own};
use super::problem::{Kind, Problem};
use super::request::ByAccount;
use crate::clock;
use crate::faults::FaultKind;

#[derive(Deserialize)]
struct Finalize {
    csr: String,
}

/// finalize.
pub(crate) async fn finalize(
    State(ca): State<Arc<Ca>>,
    Path(id): Path<String>,
    request: ByAccount,
) -> Result<Response, Problem> {
    let asked: Finalize = request.payload.json()?;
    let names = ca.orders.read(&id, |order| {
        must_be_own(order, &request.account)?;
        Ok(order.names.clone())
    });
    let names = names.ok_or_else(|| Problem::not_found("order"))??;
    let csr = match ca.faults.strikes_any(FaultKind::BadCsr, &names) {
        true => Err(Problem::new(Kind::BadCsr, "no good CSR (a fault is switched on)")),
        false => check_csr(&asked.csr, &request.key, &names),
    };
    accept(&ca, &id, asked.csr, csr.as_ref().err())?;
    settle(&ca, &id, &csr?);
    if ca.faults.strikes_any(FaultKind::FinalizeError, &names) {
        let detail = "the order was finalized, but a fault is switched on";
        return Err(Problem::new(Kind::ServerInternal, detail));
    }
    let shown = ca.orders.read(&id, |order| order.response(&ca));
    shown.ok_or_else(|| Problem::not_found("order"))
}

fn check_csr(text: &str, account_key: &Jwk, names: &[String]) -> Result<Csr, Problem> {
    let der = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| Problem::new(Kind::BadCsr, "the CSR is not DER in unpadded base64url"))?;
    let csr = Csr::parse(&der, account_key)?;
    csr.must_ask_for(names)?;
    Ok(csr)
}

/// Moves a ready order to `processing` and counts; a refused request leaves it as it is.
fn accept(ca: &Ca, id: &str, csr: String, bad_csr: Option<&Problem>) -> Result<(), Problem> {
    let accepted = ca.orders.update(id, |order| {
        let status = order.status(ca);
        if status != OrderStatus::Ready {
            let repeated = matches!(status, OrderStatus::Processing | OrderStatus::Valid);
            *if repeated { &mut order.finalized } else { &mut order.finalize_refused } += 1;
            let detail = format!("the order is {status:?}, and only a ready one can be finalized");
            return Err(Problem::new(Kind::OrderNotReady, detail.to_lowercase()));
        }
        if let Some(problem) = bad_csr {
            order.finalize_refused += 1;
            return Err(problem.clone());
        }
        order.finalized += 1;
        let delay = ca.faults.delay(FaultKind::Processing).unwrap_or_default();
        order.stage = Stage::Processing { csr, ready_at: clock::now() + delay };
        Ok(())
    });
    accepted.ok_or_else(|| Problem::not_found("order"))?
}

/// Issues now, or later in the background if there is to be a delay.
fn settle(ca: &Arc<Ca>, id: &str, csr: &Csr) {
    let ready_at = ca.orders.read(id, |order| match &order.stage {
        Stage::Processing { ready_at, .. } => Some(*ready_at),
        _ => None,
    });
    match ready_at.flatten() {
        Some(at) if at > clock::now() => resume(ca, id.to_owned()),
        Some(_) => issue(ca, id, csr),
        None => {}
    }
}

/// Goes on with an order that is `processing`, when its time has come.
pub(crate) fn resume(ca: &Arc<Ca>, id: String) {
    let ca = ca.clone();
    tokio::spawn(async move {
        let stage = ca.orders.read(&id, |order| (order.account.clone(), order.stage.clone()));
        let Some((account, Stage::Processing { csr, ready_at })) = stage else { return };
        let wait = (ready_at - clock::now()).try_into().unwrap_or_default();
        let stop = ca.stop.clone();
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        let Some(key) = ca.accounts.read(&account, |account| account.key.clone()) else { return };
        let der = URL_SAFE_NO_PAD.decode(csr).unwrap_or_default();
        match Csr::parse(&der, &key) {
            Ok(csr) => issue(&ca, &id, &csr),
            Err(error) => set_stage(&ca, &id, Stage::Invalid { error }),
        }
    });
}

fn issue(ca: &Ca, id: &str, csr: &Csr) {
    let Some(order) = ca.orders.read(id, Order::clone) else { return };
    let stage = match sign(ca, &order, csr) {
        Ok(certificate) => Stage::Valid { certificate },
        Err(error) => Stage::Invalid { error },
    };
    set_stage(ca, id, stage);
}

fn sign(ca: &Ca, order: &Order, csr: &Csr) -> Result<String, Problem> {
    let failed = |detail: &str| Problem::new(Kind::ServerInternal, detail);
    if ca.faults.strikes_any(FaultKind::FinalizeInvalid, &order.names) {
        return Err(failed("the order became invalid (a fault is switched on)"));
    }
    let mut names = order.names.clone();
    if ca.faults.strikes_any(FaultKind::WrongCertificate, &names) {
        names = vec!["wrong-certificate.holdfast.test".to_owned()];
    }
    let profiles = &ca.settings.profiles;
    let profile = profiles.iter().find(|profile| profile.name == order.profile);
    let lifetime = profile.ok_or_else(|| failed("the order's profile is gone"))?.lifetime;
    let issued = ca.authority.issue(&names, csr, lifetime, oddity(ca, &order.names));
    let issued = issued.map_err(|error| failed(&format!("signing failed: {error}")))?;
    let certificate = Certificate::new(order, &issued);
    let serial = certificate.serial.clone();
    ca.index.issued(&serial, certificate.not_after);
    ca.certificates.add(certificate);
    let names = order.names.join(" ");
    tracing::info!(names, serial, "development CA: certificate issued – do not trust");
    Ok(serial)
}

fn oddity(ca: &Ca, names: &[String]) -> Oddity {
    let kinds = [
        (FaultKind::ForeignCertificate, Oddity::Foreign),
        (FaultKind::SelfSigned, Oddity::SelfSigned),
        (FaultKind::ExpiredCertificate, Oddity::Expired),
        (FaultKind::EarlyCertificate, Oddity::Early),
    ];
    let struck = kinds.into_iter().find(|(kind, _)| ca.faults.strikes_any(*kind, names));
    struck.map(|(_, oddity)| oddity).unwrap_or_default()
}

fn set_stage(ca: &Ca, id: &str, stage: Stage) {
    ca.orders.update(id, |order| order.stage = stage);
}
