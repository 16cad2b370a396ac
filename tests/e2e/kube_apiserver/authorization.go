package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers/rbac/v1"
)

// tokens is a file with {token: {user, groups, node}}, read for each request.
type tokens string

type account struct {
	User, Node string
	Groups     []string
}

func (path tokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	content, err := os.ReadFile(string(path))
	if err != nil {
		return nil, false, err
	}
	var known map[string]account
	if err := json.Unmarshal(content, &known); err != nil {
		return nil, false, err
	}
	found, is := known[token]
	if !is {
		return nil, false, nil
	}
	out := &user.DefaultInfo{Name: found.User, Groups: append(found.Groups, user.AllAuthenticated)}
	if found.Node != "" {
		out.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {found.Node}}
	}
	return &authenticator.Response{User: out}, true, nil
}

// rbac evaluates the ClusterRoles that ClusterRoleBindings give to a user. Who is authenticated may discover.
type rbac struct{ informers v1.Interface }

func isOf(subject rbacv1.Subject, who user.Info) bool {
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		return who.GetName() == "system:serviceaccount:"+subject.Namespace+":"+subject.Name
	case rbacv1.GroupKind:
		return slices.Contains(who.GetGroups(), subject.Name)
	}
	return who.GetName() == subject.Name
}

func has(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

func allows(rule rbacv1.PolicyRule, what authorizer.Attributes) bool {
	resource := what.GetResource()
	if what.GetSubresource() != "" {
		resource += "/" + what.GetSubresource()
	}
	return has(rule.Verbs, what.GetVerb()) && has(rule.APIGroups, what.GetAPIGroup()) && has(rule.Resources, resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, what.GetName()))
}

func (r rbac) Authorize(_ context.Context, what authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(what.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	if !what.IsResourceRequest() {
		return authorizer.DecisionAllow, "", nil
	}
	bindings, err := r.informers.ClusterRoleBindings().Lister().List(labels.Everything())
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	for _, binding := range bindings {
		if !slices.ContainsFunc(binding.Subjects, func(one rbacv1.Subject) bool { return isOf(one, what.GetUser()) }) {
			continue
		}
		role, err := r.informers.ClusterRoles().Lister().Get(binding.RoleRef.Name)
		if err == nil && slices.ContainsFunc(role.Rules, func(one rbacv1.PolicyRule) bool { return allows(one, what) }) {
			return authorizer.DecisionAllow, "by ClusterRoleBinding " + binding.Name, nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}
