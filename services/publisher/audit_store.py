"""The publisher's part of the audit trail."""

from shared.database import Transaction, statement

EVERY_TENANT = "*"
"""Under which what concerns all tenants is written down."""

_INSERT_AUDIT_ENTRY = statement("""
    INSERT INTO audit_entries (tenant, key_id, action, subject, reason, detail)
    VALUES (
        %(tenant)s, %(key_id)s, %(action)s, %(subject)s, %(reason)s, %(detail)s::jsonb
    )
""")


async def insert_audit_entry(
    tx: Transaction,
    *,
    tenant: str,
    key_id: str,
    action: str,
    subject: str,
    reason: str,
    detail: str,
) -> None:
    """Writes down who did what, and why (W7); `detail` is JSON text."""
    await tx.execute(
        _INSERT_AUDIT_ENTRY,
        tenant=tenant,
        key_id=key_id,
        action=action,
        subject=subject,
        reason=reason,
        detail=detail,
    )
