"""Who calls, and for which tenant (X8)."""

from contextvars import ContextVar
from dataclasses import dataclass

from fencepost.common.v1 import access_pb2
from fencepost.errors import FieldInvalid, ScopeMissing
from fencepost.metadata import TENANT

Scope = access_pb2.Scope
ANY: Scope.ValueType = access_pb2.SCOPE_ANY

_PREFIX = "SCOPE_"


def scope_name(scope: Scope.ValueType) -> str:
    """How a scope is stored and shown, e.g. "deliveries_write"."""
    return Scope.Name(scope).removeprefix(_PREFIX).lower()


def scope_of(name: str) -> Scope.ValueType | None:
    """The scope of this name; None for one that this version does not know."""
    value = Scope.DESCRIPTOR.values_by_name.get(_PREFIX + name.upper())
    return Scope.Value(value.name) if value is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The key behind a call; `tenant` is the key's own, None for one that belongs to no tenant."""

    key_id: str
    tenant: str | None
    scopes: frozenset[Scope.ValueType]
    named_tenant: str | None = None

    def require_scope(self, scope: Scope.ValueType) -> None:
        """Raises ScopeMissing unless the key carries the scope."""
        if scope not in self.scopes and scope != ANY:
            raise ScopeMissing(scope=scope_name(scope))

    def require_tenant(self) -> str:
        """The tenant that the call is for; raises FieldInvalid when it named none and must."""
        tenant = self.tenant_or_all()
        if tenant is None:
            sentence = "must name a tenant, since the key belongs to none"
            raise FieldInvalid(violations=[(TENANT, sentence)])
        return tenant

    def tenant_or_all(self) -> str | None:
        """The tenant that the call is for; None means all, which only a key of no tenant gets."""
        return self.tenant if self.tenant is not None else self.named_tenant


_caller: ContextVar[Caller] = ContextVar("fencepost_caller")


def current_caller() -> Caller:
    """The caller of the RPC that is being served; raises LookupError outside of one."""
    return _caller.get()


def set_current_caller(caller: Caller) -> None:
    """For the runtime: names the caller for the rest of this task and those it starts."""
    _caller.set(caller)


def on_behalf_of(caller: Caller, named_tenant: str) -> Caller:
    """The caller with the tenant it named.

    A tenant's key may name its own alone, a key of no tenant needs the operator's scope. The
    refusal never depends on whether the named tenant exists, so that nothing is learned from it.
    """
    if caller.tenant is not None:
        if caller.tenant != named_tenant:
            raise ScopeMissing(scope=scope_name(access_pb2.SCOPE_OPERATE), message=_OTHER_TENANT)
        return caller
    caller.require_scope(access_pb2.SCOPE_OPERATE)
    return Caller(
        key_id=caller.key_id, tenant=None, scopes=caller.scopes, named_tenant=named_tenant
    )


_OTHER_TENANT = "The API key belongs to another tenant than the call names: leave the name out."
