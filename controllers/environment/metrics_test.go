package environment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/csenv/csenv/api/v1alpha1"
)

func poolWith(name string, available metav1.ConditionStatus, active, capacity int64) *v1alpha1.CustomerSupportEnv {
	return pool(func(env *v1alpha1.CustomerSupportEnv) {
		env.Name = name
		env.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: available}}
		env.Status.Sessions = &v1alpha1.SessionCounts{Active: active, Capacity: capacity}
	})
}

func TestCollector(t *testing.T) {
	t.Parallel()
	reader := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(
		poolWith("a", metav1.ConditionTrue, 3, 10),
		poolWith("b", metav1.ConditionTrue, 4, 10),
		poolWith("draining", metav1.ConditionFalse, 5, 0),
		pool(func(env *v1alpha1.CustomerSupportEnv) {
			env.Name, env.Spec.Environment = "new", v1alpha1.WorkflowEnvironment
		}),
	).Build()
	want := `
# HELP csenv_environments CustomerSupportEnvs, by whether they are Available.
# TYPE csenv_environments gauge
csenv_environments{available="False",environment="Ticket"} 1
csenv_environments{available="False",environment="Workflow"} 0
csenv_environments{available="True",environment="Ticket"} 2
csenv_environments{available="True",environment="Workflow"} 0
csenv_environments{available="Unknown",environment="Ticket"} 0
csenv_environments{available="Unknown",environment="Workflow"} 1
# HELP csenv_sessions_active Open sessions of all pools.
# TYPE csenv_sessions_active gauge
csenv_sessions_active{environment="Ticket"} 12
csenv_sessions_active{environment="Workflow"} 0
# HELP csenv_sessions_free Sessions that all pools could take on at once.
# TYPE csenv_sessions_free gauge
csenv_sessions_free{environment="Ticket"} 13
csenv_sessions_free{environment="Workflow"} 0
`
	if err := testutil.CollectAndCompare(newCollector(reader), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(newCollector(reader)); err != nil || len(problems) > 0 {
		t.Errorf("names that Prometheus advises against: %v, %v", problems, err)
	}
}

func TestCollectorWithoutTheCache(t *testing.T) {
	t.Parallel()
	reader := fake.NewClientBuilder().WithScheme(newScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("cache not started")
		},
	}).Build()
	if err := testutil.CollectAndCompare(newCollector(reader), strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "cache not started") {
		t.Errorf("error = %v, want the scrape to fail for what it can't read", err)
	}
}
